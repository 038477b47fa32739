import assert from 'node:assert/strict'
import { test } from 'node:test'
import { webhookCauses } from '../../projections/webhook-causes.ts'
import { cappedSpendMicros } from '../../src/domain/ledger/fold.ts'
import type { DomainEvent, RecordedEvent } from '../../src/kernel/event.ts'
import { centsToMicros } from '../../src/kernel/money.ts'
import { capCoverages } from '../../src/kernel/scopes.ts'
import type { StreamName } from '../../src/kernel/streams.ts'
import type { Table } from '../../src/platform/projections/read-model.ts'
import {
  account,
  capOfCommand,
  type Played,
  play,
  type Step,
  startMs,
  steps,
} from '../domain/ledger/support.ts'
import fc, { runs } from '../support/fast-check.ts'
import { foldInMemory } from './memory-rows.ts'

const tableOf = (name: string) => webhookCauses.tables.find((table) => table.name === name) as Table

type Row = Readonly<Record<string, unknown>>

/** Events in the order of a log, with their positions. */
const createLog = () => {
  const events: RecordedEvent[] = []
  const write = (stream: string, event: DomainEvent, atMs: number): RecordedEvent => {
    const position = events.length + 1
    const recorded: RecordedEvent = {
      ...structuredClone(event),
      id: `00000000-0000-7000-8000-${String(position).padStart(12, '0')}`,
      stream: stream as StreamName,
      revision: position,
      position,
      metadata: {
        correlationId: 'test',
        causationId: null,
        actor: { kind: 'system', name: 'test' },
        recordedAt: new Date(atMs).toISOString(),
      },
    }
    events.push(recorded)
    return recorded
  }
  write(
    `account-${account}`,
    { type: 'AccountCreated', data: { accountId: account, reseller: true } },
    startMs,
  )
  const endpoint = { endpointId: 'whs_1', accountId: account, events: null, urlId: 'url', secretId: 'sec' }
  write(`webhooks-${account}`, { type: 'EndpointRegistered', data: endpoint }, startMs)
  const setThreshold = (thresholdMicros: number | null, atMs: number) =>
    write(`account-${account}`, { type: 'LowBalanceThresholdSet', data: { thresholdMicros } }, atMs)
  return { events, write, setThreshold }
}

/** Before some steps the threshold changes, some times to the exact balance that the step leaves. */
const history = fc.record({
  list: steps,
  thresholds: fc.array(
    fc.record({
      before: fc.nat(119),
      thresholdMicros: fc.oneof(
        fc.constantFrom(null, 'left' as const),
        fc.integer({ min: 1, max: 60_000_000 }),
      ),
    }),
    { minLength: 1, maxLength: 6 },
  ),
})

test('property: each fall below the threshold is found once, and the balance must rise to it before the next', () => {
  const histories = runs(300)
  let found = 0
  fc.assert(
    fc.property(history, ({ list, thresholds }) => {
      const log = createLog()
      const expected: number[] = []
      let threshold: number | null = null
      let armed = false
      for (const [n, { before, after, events, nowMs }] of play(list).entries()) {
        for (const change of thresholds.filter((each) => each.before === n)) {
          threshold =
            change.thresholdMicros === 'left' ? after.availableMicros || null : change.thresholdMicros
          armed = threshold !== null && before.availableMicros >= threshold
          log.setThreshold(threshold, nowMs)
        }
        for (const event of events) {
          const { position } = log.write(`ledger-${account}`, event, nowMs)
          if (threshold === null) continue
          const isLow = after.availableMicros < threshold
          if (isLow && armed) expected.push(position)
          armed = !isLow
        }
      }
      const rows = foldInMemory(webhookCauses, log.events)
      const lows = (rows(tableOf('low_balances')) as Row[]).map(({ position }) => position)
      const due = (rows(tableOf('webhooks_due')) as Row[])
        .filter(({ event }) => event === 'wallet.low_balance')
        .map(({ position }) => position)
      assert.deepEqual([lows, due], [expected, expected])
      found += expected.length
    }),
    { numRuns: histories },
  )
  assert.ok(found > histories / 10, `${found} falls`)
})

/** What counts against the cap of the key that spends, micro-dollars, and the cap; null for other steps. */
const spendingOf = ({ step: { command }, after, nowMs, events: [event] }: Played) => {
  const cap = 'capCents' in command ? capOfCommand(command) : null
  if (event === undefined || cap === null) return null
  if (command.kind === 'hold' && cap.covers === 'orders') return null
  const { keyId = null } = command as { readonly keyId?: string }
  if (keyId === null) return null
  const spent = cappedSpendMicros(after, keyId, cap.covers, nowMs)
  return { keyId, capMicros: centsToMicros(cap.cents), spent }
}

/** Orders and calls of two keys under caps of 50 and 60 dollars, some of which reach them exactly. */
const orders = fc.array(
  fc.record({
    afterMs: fc.constantFrom(1_000, 3_600_000, 7 * 3_600_000),
    keyId: fc.constantFrom('key_0', 'key_1'),
    amountCents: fc.constantFrom(500, 999, 1_000, 2_000, 4_000),
    capCents: fc.constantFrom(5_000, 6_000),
    covers: fc.constantFrom(...capCoverages),
    isCall: fc.boolean(),
  }),
  { maxLength: 80, size: 'max' },
)

test('property: 80 % and 100 % of a cap are found once for each key and day, and only 100 % if both are reached', () => {
  const found = new Map<number, number>()
  fc.assert(
    fc.property(orders, (list) => {
      const log = createLog()
      const rich = { kind: 'credit', source: 'manual', reference: 'seed', amountMicros: 10 ** 12 } as const
      const expected = new Map<string, number>()
      const debits = list.map(
        ({ afterMs, isCall, amountCents, ...spending }, n): Step => ({
          afterMs,
          command: isCall
            ? { kind: 'hold', holdId: `hold_${n}`, amountMicros: centsToMicros(amountCents), ...spending }
            : { kind: 'debit', orderId: `ord_${n}`, amountCents, ...spending },
        }),
      )
      for (const played of play([{ afterMs: 0, command: rich }, ...debits])) {
        const spending = spendingOf(played)
        for (const event of played.events) {
          const { position, metadata } = log.write(`ledger-${account}`, event, played.nowMs)
          if (spending === null) continue
          const level = [80, 100].findLast((part) => spending.spent * 100 >= spending.capMicros * part)
          const resourceOf = (part: number) => `${spending.keyId}.${metadata.recordedAt.slice(0, 10)}.${part}`
          if (level === undefined || expected.has(resourceOf(level)) || expected.has(resourceOf(100)))
            continue
          expected.set(resourceOf(level), position)
          found.set(level, (found.get(level) ?? 0) + 1)
        }
      }
      const due = (foldInMemory(webhookCauses, log.events)(tableOf('webhooks_due')) as Row[])
        .filter(({ event }) => event === 'key.cap_reached')
        .map(({ resource, position }) => [resource, position] as const)
      // The position is that of the first debit: a second one would have replaced it.
      assert.deepEqual(new Map(due as [string, number][]), expected)
    }),
    { numRuns: runs(300) },
  )
  for (const level of [80, 100]) assert.ok(found.get(level)! > 20, `${found.get(level)} of ${level} %`)
})
