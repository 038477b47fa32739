import type { FourEyesSet, ProposalEvent, ProposedAction } from '../../domain/ledger/approvals.ts'
import {
  limitEffectiveDelayMs,
  operatorOf,
  proposalIdOf,
  proposalLifetimeMs,
  proposedSizeMicros,
  proposedText,
} from '../../domain/ledger/decide-approval.ts'
import type { ManualMovement, ManualMovementRecorded } from '../../domain/ledger/manual-movements.ts'
import type { OrderEvent, RefundDecided } from '../../domain/orders/events.ts'
import type { LogSealed } from '../../domain/seals/events.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import { deriveId } from '../../kernel/ids.ts'
import { centsToMicros } from '../../kernel/money.ts'
import { approvalLimitsStream, proposalStream, sealStream } from '../../kernel/streams.ts'
import type { ReadModel, Rows, Table } from '../../platform/projections/read-model.ts'
import { inDollars, recordViolation } from './violation.ts'

type Limit = { readonly limitCents: number | null; readonly fromMs: number }

/** The limits that were set, and the latest known time of the log: one row. */
type SettingRow = { id: string; limits: readonly Limit[]; late_ms: number }
type ProposalRow = {
  proposal_id: string
  what: string
  by: string
  expires_ms: number
  /** `used`: the approved action is in the log. */
  state: 'open' | 'approved' | 'used' | 'closed'
}

const settingTable: Table<SettingRow> = {
  name: 'audit_four_eyes',
  columns: { id: { type: 'text' }, limits: { type: 'jsonb' }, late_ms: { type: 'bigint' } },
  key: ['id'],
  indexes: [],
}
const proposalsTable: Table<ProposalRow> = {
  name: 'audit_proposals',
  columns: {
    proposal_id: { type: 'text' },
    what: { type: 'text' },
    by: { type: 'text' },
    expires_ms: { type: 'bigint' },
    state: { type: 'text' },
  },
  key: ['proposal_id'],
  indexes: [],
}

/**
 * The maximum delay between recording and appending an event, while the log is unavailable. An older time of recording
 * would claim an earlier limit. Milliseconds.
 */
const latestLandingMs = 600_000

type Known = RecordedEvent<FourEyesSet | ProposalEvent | ManualMovementRecorded | RefundDecided | LogSealed>
type Say = (rule: string, problem: string) => void

const settingKey = { table: settingTable.name, key: ['setting'] }
const settingOf = (rows: Rows): SettingRow =>
  rows.get(settingTable, ['setting']) ?? { id: 'setting', limits: [], late_ms: 0 }

/** Whether the service itself made the movement. Other rules apply to it: a dispute, or a period that was not due. */
const isOwn = (event: RecordedEvent<ManualMovementRecorded | RefundDecided>): boolean => {
  if (event.metadata.actor.kind !== 'system') return false
  if (event.type === 'RefundDecided') {
    const { orderId, refundId } = event.data
    return refundId === deriveId('ref', [orderId, 'subscription'])
  }
  return event.data.kind !== 'credit' && event.data.depositId !== undefined
}

const isRefund = (event: Known): event is RecordedEvent<RefundDecided> =>
  event.type === 'RefundDecided' && event.data.reason === 'operator'

/**
 * The required proposal of a movement or refund. `isSame` compares all other fields, because a refund does not name the
 * buyer.
 */
const proposalOf = (event: RecordedEvent<ManualMovementRecorded | RefundDecided>, rows: Rows) =>
  rows.get(proposalsTable, [idBefore(event)])
const idBefore = (event: RecordedEvent<ManualMovementRecorded | RefundDecided>): string =>
  event.type === 'RefundDecided'
    ? proposalIdOf({ kind: 'refund', refundId: event.data.refundId })
    : proposalIdOf(event.data)

const isSame = (event: RecordedEvent<ManualMovementRecorded | RefundDecided>, what: string): boolean => {
  if (event.type !== 'RefundDecided') return what === proposedText(event.data)
  const { orderId, refundId, amountCents, costCents, proxyIds } = event.data
  const { accountId: _, reference: _reference, asked: _asked, ...proposed } = JSON.parse(what)
  const cost = costCents === undefined ? {} : { costCents }
  const decided = { kind: 'refund', orderId, refundId, amountCents, ...cost, proxyIds }
  return proposedText(proposed) === proposedText(decided as unknown as ProposedAction)
}

const limitFor = (event: RecordedEvent, { limits, late_ms: lateMs }: SettingRow): number | null => {
  const atMs = Math.max(Date.parse(event.metadata.recordedAt), lateMs - latestLandingMs)
  return limits.findLast(({ fromMs }) => fromMs <= atMs)?.limitCents ?? null
}

const checkMoved = (
  event: RecordedEvent<ManualMovementRecorded | RefundDecided>,
  rows: Rows,
  say: Say,
): void => {
  if (isOwn(event)) return
  const limitCents = limitFor(event, settingOf(rows))
  const proposal = proposalOf(event, rows)
  const size =
    event.type === 'RefundDecided'
      ? centsToMicros(Math.max(event.data.amountCents, event.data.costCents ?? 0))
      : (proposedSizeMicros(event.data as ManualMovement) ?? 0)
  if (proposal?.state === 'approved') rows.put(proposalsTable, { ...proposal, state: 'used' })
  if (limitCents === null || size <= centsToMicros(limitCents)) return
  const what = `${inDollars(size)} by hand, above the ${inDollars(centsToMicros(limitCents))} that one operator may move alone,`
  if (proposal === undefined) say('movement-unproposed', `it moves ${what} and nobody proposed it`)
  else if (proposal.state !== 'approved')
    say('movement-unapproved', `it moves ${what} and no other operator approved it before, once`)
  else if (!isSame(event, proposal.what))
    say('movement-not-as-proposed', `it moves ${what} and ${proposal.what} was approved`)
}

const checkProposal = (event: RecordedEvent<ProposalEvent>, rows: Rows, say: Say): void => {
  const { proposalId, by } = event.data
  if (event.stream !== proposalStream(proposalId))
    say('proposal-elsewhere', `it is about proposal ${proposalId}`)
  if (operatorOf(event.metadata.actor) !== by)
    say('proposal-of-another', `it says ${by}, and was caused by another or by nobody who operates`)
  const atMs = Date.parse(event.metadata.recordedAt)
  const row = rows.get(proposalsTable, [proposalId])
  if (event.type === 'ProposalMade') {
    const { what, expiresAt } = event.data
    const expiresMs = Date.parse(expiresAt)
    if (
      row?.state === 'approved' ||
      row?.state === 'used' ||
      (row?.state === 'open' && atMs < row.expires_ms)
    )
      say('proposed-twice', `proposal ${proposalId} was made before, and is not over`)
    if (what.kind !== 'setting' && proposalIdOf(what) !== proposalId)
      say('proposal-of-another-thing', `what it proposes is another proposal`)
    if (expiresMs > atMs + proposalLifetimeMs) say('proposal-long', `it stands until ${expiresAt}`)
    rows.put(proposalsTable, {
      proposal_id: proposalId,
      what: proposedText(what),
      by,
      expires_ms: expiresMs,
      state: 'open',
    })
    return
  }
  if (row === undefined || row.state !== 'open') {
    say('proposal-not-open', `proposal ${proposalId} is not open`)
    return
  }
  if (atMs >= row.expires_ms) say('proposal-expired', `proposal ${proposalId} was over`)
  const withdrawn = event.type === 'ProposalClosed' && event.data.reason === 'withdrawn'
  if ((by === row.by) !== withdrawn)
    say('four-eyes', `${by} ${withdrawn ? 'withdraws' : 'answers'} what ${row.by} proposed`)
  rows.put(proposalsTable, { ...row, state: event.type === 'ProposalApproved' ? 'approved' : 'closed' })
}

const checkLimit = (event: RecordedEvent<FourEyesSet>, rows: Rows, say: Say): void => {
  const { limitCents, from, proposalId } = event.data
  const fromMs = Date.parse(from)
  if (event.stream !== approvalLimitsStream) say('limit-elsewhere', 'no limit is set here')
  if (fromMs !== Date.parse(event.metadata.recordedAt) + limitEffectiveDelayMs)
    say('limit-from', `it holds from ${from} on, which is not a minute after it was recorded`)
  const row = settingOf(rows)
  const last = row.limits.at(-1)?.limitCents ?? null
  if (last !== null && (limitCents === null || limitCents > last)) {
    const proposal = proposalId === null ? undefined : rows.get(proposalsTable, [proposalId])
    if (proposal?.state !== 'approved' || proposal.what !== proposedText({ kind: 'setting', limitCents }))
      say(
        'limit-unapproved',
        `it allows more than ${inDollars(centsToMicros(last))}, and nobody approved that`,
      )
    else rows.put(proposalsTable, { ...proposal, state: 'used' })
  }
  rows.put(settingTable, { ...row, limits: [...row.limits, { limitCents, fromMs }] })
}

/**
 * Approvals. A manual movement or refund above the limit in force at its position has an earlier proposal and an
 * approval by another operator, for the same amount to the micro-dollar, and uses the approval once. A higher limit
 * needs an approval in the same way.
 */
export const approvalRules: ReadModel = {
  name: 'audit-approvals',
  version: 1,
  tables: [settingTable, proposalsTable],
  takes: {
    types: new Set([
      'FourEyesSet',
      'ProposalMade',
      'ProposalApproved',
      'ProposalClosed',
      'LogSealed',
      'ManualMovementRecorded',
      'RefundDecided',
    ]),
  },
  reads: (recorded) => {
    const event = recorded as Known
    const proposal = (proposalId: string) => ({ table: proposalsTable.name, key: [proposalId] })
    switch (event.type) {
      case 'FourEyesSet': {
        const { proposalId } = event.data
        return [settingKey, ...(proposalId === null ? [] : [proposal(proposalId)])]
      }
      case 'ProposalMade':
      case 'ProposalApproved':
      case 'ProposalClosed':
        return [proposal(event.data.proposalId)]
      case 'LogSealed':
        return event.stream === sealStream ? [settingKey] : []
      case 'ManualMovementRecorded':
        return [settingKey, proposal(idBefore(event))]
      case 'RefundDecided':
        return isRefund(event) ? [settingKey, proposal(idBefore(event))] : []
      default:
        return []
    }
  },
  apply: (recorded, rows) => {
    const event = recorded as Known | RecordedEvent<OrderEvent>
    const say: Say = (rule, problem) => recordViolation(rows, event, rule, problem)
    switch (event.type) {
      case 'FourEyesSet':
        return checkLimit(event, rows, say)
      case 'ProposalMade':
      case 'ProposalApproved':
      case 'ProposalClosed':
        return checkProposal(event as RecordedEvent<ProposalEvent>, rows, say)
      case 'LogSealed': {
        const row = settingOf(rows)
        const atMs = Date.parse(event.data.sealedAt)
        // Without a limit the time of the log is not needed.
        if (event.stream === sealStream && row.limits.length > 0 && atMs > row.late_ms)
          rows.put(settingTable, { ...row, late_ms: atMs })
        return
      }
      case 'ManualMovementRecorded':
        return checkMoved(event, rows, say)
      case 'RefundDecided':
        if (isRefund(event as Known)) checkMoved(event as RecordedEvent<RefundDecided>, rows, say)
    }
  },
}
