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

type ApprovalRuleEvent = RecordedEvent<
  FourEyesSet | ProposalEvent | ManualMovementRecorded | RefundDecided | LogSealed
>
type Report = (rule: string, problem: string) => void

const settingKey = { table: settingTable.name, key: ['setting'] }
const settingOf = (rows: Rows): SettingRow =>
  rows.get(settingTable, ['setting']) ?? { id: 'setting', limits: [], late_ms: 0 }

/** Whether the service itself made the movement. Other rules apply to it: a dispute, or a period that was not due. */
const isByService = (event: RecordedEvent<ManualMovementRecorded | RefundDecided>): boolean => {
  if (event.metadata.actor.kind !== 'system') return false
  if (event.type === 'RefundDecided') {
    const { orderId, refundId } = event.data
    return refundId === deriveId('ref', [orderId, 'subscription'])
  }
  return event.data.kind !== 'credit' && event.data.depositId !== undefined
}

const isRefund = (event: ApprovalRuleEvent): event is RecordedEvent<RefundDecided> =>
  event.type === 'RefundDecided' && event.data.reason === 'operator'

/**
 * The required proposal of a movement or refund. `isAsProposed` compares all other fields, because a refund does not
 * name the buyer.
 */
const proposalOf = (event: RecordedEvent<ManualMovementRecorded | RefundDecided>, rows: Rows) =>
  rows.get(proposalsTable, [requiredProposalId(event)])
const requiredProposalId = (event: RecordedEvent<ManualMovementRecorded | RefundDecided>): string =>
  event.type === 'RefundDecided'
    ? proposalIdOf({ kind: 'refund', refundId: event.data.refundId })
    : proposalIdOf(event.data)

const isAsProposed = (
  event: RecordedEvent<ManualMovementRecorded | RefundDecided>,
  what: string,
): boolean => {
  if (event.type !== 'RefundDecided') return what === proposedText(event.data)
  const { orderId, refundId, amountCents, costCents, proxyIds } = event.data
  const { accountId: _, reference: _reference, asked: _asked, ...proposedAction } = JSON.parse(what)
  const cost = costCents === undefined ? {} : { costCents }
  const decidedAction = { kind: 'refund', orderId, refundId, amountCents, ...cost, proxyIds }
  return proposedText(proposedAction) === proposedText(decidedAction as unknown as ProposedAction)
}

const limitFor = (event: RecordedEvent, { limits, late_ms: lateMs }: SettingRow): number | null => {
  const atMs = Math.max(Date.parse(event.metadata.recordedAt), lateMs - latestLandingMs)
  return limits.findLast(({ fromMs }) => fromMs <= atMs)?.limitCents ?? null
}

const checkMoved = (
  event: RecordedEvent<ManualMovementRecorded | RefundDecided>,
  rows: Rows,
  report: Report,
): void => {
  if (isByService(event)) return
  const limitCents = limitFor(event, settingOf(rows))
  const proposal = proposalOf(event, rows)
  const sizeMicros =
    event.type === 'RefundDecided'
      ? centsToMicros(Math.max(event.data.amountCents, event.data.costCents ?? 0))
      : (proposedSizeMicros(event.data as ManualMovement) ?? 0)
  if (proposal?.state === 'approved') rows.put(proposalsTable, { ...proposal, state: 'used' })
  if (limitCents === null || sizeMicros <= centsToMicros(limitCents)) return
  const what = `${inDollars(sizeMicros)} by hand, above the ${inDollars(centsToMicros(limitCents))} that one operator may move alone,`
  if (proposal === undefined) report('movement-unproposed', `it moves ${what} and nobody proposed it`)
  else if (proposal.state !== 'approved')
    report('movement-unapproved', `it moves ${what} and no other operator approved it before, once`)
  else if (!isAsProposed(event, proposal.what))
    report('movement-not-as-proposed', `it moves ${what} and ${proposal.what} was approved`)
}

const checkProposal = (event: RecordedEvent<ProposalEvent>, rows: Rows, report: Report): void => {
  const { proposalId, by } = event.data
  if (event.stream !== proposalStream(proposalId))
    report('proposal-elsewhere', `it is about proposal ${proposalId}`)
  if (operatorOf(event.metadata.actor) !== by)
    report('proposal-of-another', `it says ${by}, and was caused by another or by nobody who operates`)
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
      report('proposed-twice', `proposal ${proposalId} was made before, and is not over`)
    if (what.kind !== 'setting' && proposalIdOf(what) !== proposalId)
      report('proposal-of-another-thing', `what it proposes is another proposal`)
    if (expiresMs > atMs + proposalLifetimeMs) report('proposal-long', `it stands until ${expiresAt}`)
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
    report('proposal-not-open', `proposal ${proposalId} is not open`)
    return
  }
  if (atMs >= row.expires_ms) report('proposal-expired', `proposal ${proposalId} was over`)
  const isWithdrawn = event.type === 'ProposalClosed' && event.data.reason === 'withdrawn'
  if ((by === row.by) !== isWithdrawn)
    report('four-eyes', `${by} ${isWithdrawn ? 'withdraws' : 'answers'} what ${row.by} proposed`)
  rows.put(proposalsTable, { ...row, state: event.type === 'ProposalApproved' ? 'approved' : 'closed' })
}

const checkLimit = (event: RecordedEvent<FourEyesSet>, rows: Rows, report: Report): void => {
  const { limitCents, from, proposalId } = event.data
  const fromMs = Date.parse(from)
  if (event.stream !== approvalLimitsStream) report('limit-elsewhere', 'no limit is set here')
  if (fromMs !== Date.parse(event.metadata.recordedAt) + limitEffectiveDelayMs)
    report('limit-from', `it holds from ${from} on, which is not a minute after it was recorded`)
  const row = settingOf(rows)
  const lastLimitCents = row.limits.at(-1)?.limitCents ?? null
  if (lastLimitCents !== null && (limitCents === null || limitCents > lastLimitCents)) {
    const proposal = proposalId === null ? undefined : rows.get(proposalsTable, [proposalId])
    if (proposal?.state !== 'approved' || proposal.what !== proposedText({ kind: 'setting', limitCents }))
      report(
        'limit-unapproved',
        `it allows more than ${inDollars(centsToMicros(lastLimitCents))}, and nobody approved that`,
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
    const event = recorded as ApprovalRuleEvent
    const proposalKey = (proposalId: string) => ({ table: proposalsTable.name, key: [proposalId] })
    switch (event.type) {
      case 'FourEyesSet': {
        const { proposalId } = event.data
        return [settingKey, ...(proposalId === null ? [] : [proposalKey(proposalId)])]
      }
      case 'ProposalMade':
      case 'ProposalApproved':
      case 'ProposalClosed':
        return [proposalKey(event.data.proposalId)]
      case 'LogSealed':
        return event.stream === sealStream ? [settingKey] : []
      case 'ManualMovementRecorded':
        return [settingKey, proposalKey(requiredProposalId(event))]
      case 'RefundDecided':
        return isRefund(event) ? [settingKey, proposalKey(requiredProposalId(event))] : []
      default:
        return []
    }
  },
  apply: (recorded, rows) => {
    const event = recorded as ApprovalRuleEvent | RecordedEvent<OrderEvent>
    const report: Report = (rule, problem) => recordViolation(rows, event, rule, problem)
    switch (event.type) {
      case 'FourEyesSet':
        return checkLimit(event, rows, report)
      case 'ProposalMade':
      case 'ProposalApproved':
      case 'ProposalClosed':
        return checkProposal(event as RecordedEvent<ProposalEvent>, rows, report)
      case 'LogSealed': {
        const row = settingOf(rows)
        const atMs = Date.parse(event.data.sealedAt)
        // Without a limit the time of the log is not needed.
        if (event.stream === sealStream && row.limits.length > 0 && atMs > row.late_ms)
          rows.put(settingTable, { ...row, late_ms: atMs })
        return
      }
      case 'ManualMovementRecorded':
        return checkMoved(event, rows, report)
      case 'RefundDecided':
        if (isRefund(event as ApprovalRuleEvent))
          checkMoved(event as RecordedEvent<RefundDecided>, rows, report)
    }
  },
}
