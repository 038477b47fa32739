import type { AccountEvent } from '../../domain/accounts/events.ts'
import type { LedgerEvent } from '../../domain/ledger/events.ts'
import { capKeyOf } from '../../domain/ledger/fold.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import { centsToMicros } from '../../kernel/money.ts'
import type { ReadModel, Table } from '../../platform/projections/read-model.ts'
import { inDollars, recordViolation } from './violation.ts'

/** A key with a cap, and the amounts spent under it since the cap exists. */
type CapRow = {
  key_id: string
  cap_cents: number | null
  /** The cap before the last change: an order may have been in progress at the change. */
  former_cents: number | null
  changed_at: string
  /** JSON: `[minute, micros]` of the last 24 hours, oldest first. */
  spent: string
}

const capsTable: Table<CapRow> = {
  name: 'audit_caps',
  columns: {
    key_id: { type: 'text' },
    cap_cents: { type: 'bigint', nullable: true },
    former_cents: { type: 'bigint', nullable: true },
    changed_at: { type: 'text' },
    spent: { type: 'text' },
  },
  key: ['key_id'],
  indexes: [],
}

const uncapped = { cap_cents: null, former_cents: null, spent: '[]' }

type CapRuleEvent = RecordedEvent<LedgerEvent | AccountEvent>
type Bucket = readonly [minute: number, micros: number]

const minuteMs = 60_000
const windowMs = 24 * 60 * minuteMs
/** Longer than the time between an order's read of its key and its append. */
const changeGraceMs = 60_000

/** The key of an event, and the key whose cap it uses: the key itself, or the first key that it was rolled from. */
const keysOf = (event: CapRuleEvent): { readonly keyId: string; readonly capKeyId: string } | null => {
  switch (event.type) {
    case 'WalletDebited':
    case 'CustomerCharged': {
      const { keyId } = event.data.order
      return keyId === null ? null : { keyId, capKeyId: capKeyOf(event.data.order) ?? keyId }
    }
    case 'KeyIssued':
    case 'KeyCapped': {
      const { keyId, capKeyId = keyId } = event.data
      return { keyId, capKeyId }
    }
    default:
      return null
  }
}

/** The cap for an order at this time; null without a cap. */
const capAt = (row: CapRow, atMs: number): number | null => {
  const { cap_cents: cap, former_cents: former } = row
  if (atMs - Date.parse(row.changed_at) > changeGraceMs) return cap
  return cap === null || former === null ? null : Math.max(cap, former)
}

/** No key spends more than its cap in any 24 hours, in whole minutes. Rolled keys share one cap. */
export const capRules: ReadModel = {
  name: 'audit-caps',
  version: 1,
  tables: [capsTable],
  takes: { types: new Set(['WalletDebited', 'CustomerCharged', 'KeyIssued', 'KeyCapped']) },
  reads: (event) => {
    const keys = keysOf(event as CapRuleEvent)
    if (keys === null) return []
    return [...new Set([keys.keyId, keys.capKeyId])].map((key) => ({ table: capsTable.name, key: [key] }))
  },
  apply: (recorded, rows) => {
    const event = recorded as CapRuleEvent
    const keys = keysOf(event)
    if (keys === null) return
    const { keyId, capKeyId } = keys
    const row = rows.get(capsTable, [keyId])
    if (event.type === 'KeyIssued' || event.type === 'KeyCapped') {
      const { dailyCapCents } = event.data
      if (row === undefined && dailyCapCents === null) return
      rows.put(capsTable, {
        key_id: keyId,
        cap_cents: dailyCapCents,
        former_cents: row?.cap_cents ?? null,
        changed_at: event.metadata.recordedAt,
        spent: row?.spent ?? '[]',
      })
      if (rows.get(capsTable, [capKeyId]) === undefined)
        rows.put(capsTable, { ...uncapped, key_id: capKeyId, changed_at: event.metadata.recordedAt })
      return
    }
    const spenderRow = rows.get(capsTable, [capKeyId])
    if (spenderRow === undefined) return
    if (event.type !== 'WalletDebited' && event.type !== 'CustomerCharged') return
    const atMs = Date.parse(event.metadata.recordedAt)
    const minute = Math.floor(atMs / minuteMs)
    const micros = event.type === 'CustomerCharged' ? event.data.costMicros : event.data.amountMicros
    const buckets = (JSON.parse(spenderRow.spent) as Bucket[]).filter(
      ([bucketMinute]) => (bucketMinute + 1) * minuteMs > atMs - windowMs,
    )
    const last = buckets.at(-1)
    if (last !== undefined && last[0] >= minute) buckets[buckets.length - 1] = [last[0], last[1] + micros]
    else buckets.push([minute, micros])
    const spent = buckets.reduce((sum, [, bucketMicros]) => sum + bucketMicros, 0)
    const cap = row === undefined ? null : capAt(row, atMs)
    if (cap !== null && spent > centsToMicros(cap))
      recordViolation(
        rows,
        event,
        'spend-cap',
        `key ${keyId} spent ${inDollars(spent)} in 24 hours, more than its cap of ${inDollars(centsToMicros(cap))}`,
      )
    rows.put(capsTable, { ...spenderRow, spent: JSON.stringify(buckets) })
  },
}

const ledgerPrefix = 'ledger-'

/** The problem of the payer of an order; null without one. */
const problemOf = (event: RecordedEvent<LedgerEvent>): string | null => {
  if (event.type !== 'WalletDebited' && event.type !== 'CustomerCharged') return null
  const { orderId, keyId } = event.data.order
  const { actor } = event.metadata
  const accountId = event.stream.slice(ledgerPrefix.length)
  switch (actor.kind) {
    case 'session':
      if (actor.subjectId !== accountId)
        return `a session of ${actor.subjectId} paid order ${orderId} of ${accountId}`
      return keyId === null ? null : `a session paid order ${orderId}, which names key ${keyId}`
    case 'key':
      if (actor.accountId !== accountId)
        return `a key of ${actor.accountId} paid order ${orderId} of ${accountId}`
      return keyId === null ? `key ${actor.keyId} paid order ${orderId}, which names no key` : null
    default:
      return null
  }
}

/**
 * An order is paid by its own account: with a key, which the order names, or in a session, which names no key. So no
 * order avoids the cap of its key or uses the cap of another key.
 */
export const payerRules: ReadModel = {
  name: 'audit-payers',
  version: 1,
  tables: [],
  takes: { types: new Set(['WalletDebited', 'CustomerCharged']) },
  reads: () => [],
  apply: (event, rows) => {
    const problem = problemOf(event as RecordedEvent<LedgerEvent>)
    if (problem !== null) recordViolation(rows, event, 'order-payer', problem)
  },
}
