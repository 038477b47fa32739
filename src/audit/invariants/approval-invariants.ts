import type { ProposedAction, ProposedDepositRefund } from '../../domain/ledger/approvals.ts'
import {
  limitEffectiveDelayMs,
  operatorOf,
  proposalIdOf,
  proposalLifetimeMs,
  proposedSizeMicros,
  proposedText,
  proposerOf,
} from '../../domain/ledger/decide-approval.ts'
import type { ManualMovement } from '../../domain/ledger/manual-movements.ts'
import { deriveId } from '../../kernel/ids.ts'
import { centsToMicros } from '../../kernel/money.ts'
import { approvalLimitsStream, proposalStream, sealStream } from '../../kernel/streams.ts'
import { column, type RowOf, type Rows, readTable } from '../../platform/projections/read-model.ts'
import {
  type Context,
  eventRules,
  inDollars,
  invariant,
  type Recorded,
  recordedMs,
  rowKey,
} from './invariant.ts'

/** An operator's acknowledgement of an event that violates an invariant. */
export const decidedTable = readTable({
  name: 'audit_decided',
  columns: {
    eventId: column.text(),
    rule: column.text(),
    reason: column.text(),
    decidedBy: column.text(),
    decidedAt: column.text(),
  },
  key: ['eventId', 'rule'],
})

/** Not an invariant: collects the acknowledgements of violations. */
export const decidedRules = invariant({
  name: 'audit-decided',
  version: 2,
  table: decidedTable,
  key: ({ data }) => [data.eventId, data.rule],
  on: {
    LawBreachDecided: ({ data: { eventId, rule, reason }, metadata: { actor, recordedAt } }) => ({
      eventId,
      rule,
      reason,
      decidedBy: actor.kind === 'operator' ? actor.name : actor.kind,
      decidedAt: recordedAt,
    }),
  },
})

type Limit = { readonly limitCents: number | null; readonly fromMs: number }

/** The limits that were set, and the latest known time of the log: one row. */
const settingTable = readTable({
  name: 'audit_four_eyes',
  columns: { id: column.text(), limits: column.jsonb<readonly Limit[]>(), lateMs: column.bigint() },
  key: ['id'],
})
const proposalsTable = readTable({
  name: 'audit_proposals',
  columns: {
    proposalId: column.text(),
    what: column.text(),
    by: column.text(),
    expiresMs: column.bigint(),
    /** `open`, `approved`, `used` (the approved action is in the log) or `closed`. */
    state: column.text(),
  },
  key: ['proposalId'],
})

/** What each run posted from statements without an approval. */
const postedTable = readTable({
  name: 'audit_posted_statements',
  columns: { correlationId: column.text(), postedMicros: column.bigint() },
  key: ['correlationId'],
})

/**
 * The maximum delay between recording and appending an event, while the log is unavailable. An older time of recording
 * would claim an earlier limit. Milliseconds.
 */
const latestLandingMs = 600_000

type Moved = Recorded<'ManualMovementRecorded' | 'RefundDecided' | 'DepositRefundRequested'>
type Answered = Recorded<'ProposalApproved' | 'ProposalClosed'>

const settingKey = rowKey(settingTable, 'setting')
const settingOf = (rows: Rows): RowOf<typeof settingTable> =>
  rows.get(settingTable, ['setting']) ?? { id: 'setting', limits: [], lateMs: 0 }

/** Whether the service itself made the movement. Other rules apply to it: a dispute, or a period that was not due. */
const isByService = (event: Moved): boolean => {
  if (event.metadata.actor.kind !== 'system') return false
  if (event.type === 'RefundDecided') {
    const { orderId, refundId } = event.data
    return refundId === deriveId('ref', [orderId, 'subscription'])
  }
  if (event.type === 'DepositRefundRequested') return false
  return event.data.kind !== 'credit' && event.data.depositId !== undefined
}

/** The movement as it would be proposed. */
const movementOf = (
  event: Exclude<Moved, Recorded<'RefundDecided'>>,
): ManualMovement | ProposedDepositRefund =>
  event.type === 'DepositRefundRequested' ? { kind: 'deposit_refund', ...event.data } : event.data

const requiredProposalId = (event: Moved): string =>
  event.type === 'RefundDecided'
    ? proposalIdOf({ kind: 'refund', refundId: event.data.refundId })
    : proposalIdOf(movementOf(event))

/** Compares all fields that the event has with the proposed ones. A refund does not name the buyer. */
const isAsProposed = (event: Moved, what: string): boolean => {
  if (event.type !== 'RefundDecided') return what === proposedText(movementOf(event))
  const { orderId, refundId, amountCents, costCents, proxyIds } = event.data
  const { accountId: _, reference: _reference, asked: _asked, ...proposedAction } = JSON.parse(what)
  const cost = costCents === undefined ? {} : { costCents }
  const decidedAction = { kind: 'refund', orderId, refundId, amountCents, ...cost, proxyIds }
  return proposedText(proposedAction) === proposedText(decidedAction as unknown as ProposedAction)
}

const limitFor = (
  event: Moved | StatementEvent,
  { limits, lateMs }: RowOf<typeof settingTable>,
): number | null => {
  const atMs = Math.max(recordedMs(event), lateMs - latestLandingMs)
  return limits.findLast(({ fromMs }) => fromMs <= atMs)?.limitCents ?? null
}

const checkMoved = (event: Moved, { rows, report }: Context): void => {
  if (isByService(event)) return
  const limitCents = limitFor(event, settingOf(rows))
  const proposal = rows.get(proposalsTable, [requiredProposalId(event)])
  const sizeMicros =
    event.type === 'RefundDecided'
      ? centsToMicros(Math.max(event.data.amountCents, event.data.costCents ?? 0))
      : (proposedSizeMicros(movementOf(event)) ?? 0)
  if (proposal?.state === 'approved') rows.put(proposalsTable, { ...proposal, state: 'used' })
  if (limitCents === null || sizeMicros <= centsToMicros(limitCents)) return
  const what = `${inDollars(sizeMicros)} by hand, above the ${inDollars(centsToMicros(limitCents))} that one operator may move alone,`
  if (proposal === undefined) report('movement-unproposed', `it moves ${what} without a proposal`)
  else if (proposal.state !== 'approved')
    report('movement-unapproved', `it moves ${what} and no other operator approved it before, once`)
  else if (!isAsProposed(event, proposal.what))
    report('movement-not-as-proposed', `it moves ${what} and ${proposal.what} was approved`)
}

type StatementEvent = Recorded<'StatementLineBooked' | 'StatementLineCorrected'>

/** Above the limit, a line is one of an approved statement, and a correction is approved as it is. */
const isApproved = (event: StatementEvent, what: string): boolean => {
  if (event.type === 'StatementLineBooked') {
    const { gateway, proposalId: _, ...line } = event.data
    return what.includes(JSON.stringify(line)) && what.includes(`"gateway":${JSON.stringify(gateway)}`)
  }
  const { proposalId: _, ...correction } = event.data
  return what === proposedText({ kind: 'statement_correction', ...correction })
}

/** What one run posts without an approval, together, is not above the limit. */
const checkStatement = (event: StatementEvent, { rows, report }: Context): void => {
  const { proposalId, feeMicros, payoutMicros } = event.data
  const { actor, correlationId } = event.metadata
  if (actor.kind === 'system') return
  if (proposalId !== null) {
    const proposal = rows.get(proposalsTable, [proposalId])
    if (proposal?.state !== 'approved' || !isApproved(event, proposal.what))
      report('line-not-as-proposed', `no other operator approved it in ${proposalId}`)
    return
  }
  const limitCents = limitFor(event, settingOf(rows))
  const postedMicros =
    (rows.get(postedTable, [correlationId])?.postedMicros ?? 0) + Math.abs(feeMicros) + Math.abs(payoutMicros)
  rows.put(postedTable, { correlationId, postedMicros })
  if (limitCents !== null && postedMicros > centsToMicros(limitCents))
    report(
      'line-unproposed',
      `the run ${correlationId} posts ${inDollars(postedMicros)}, above the ${inDollars(centsToMicros(limitCents))} that one operator may move alone`,
    )
}

const isRefund = ({ data }: Recorded<'RefundDecided'>): boolean => data.reason === 'operator'

const checkProposalNames = (event: Recorded<'ProposalMade'> | Answered, { report }: Context): void => {
  const { proposalId, by } = event.data
  const { actor } = event.metadata
  const author = event.type === 'ProposalMade' ? proposerOf(actor, event.data.what) : operatorOf(actor)
  if (event.stream !== proposalStream(proposalId))
    report('proposal-elsewhere', `it is about proposal ${proposalId}`)
  if (author !== by)
    report('proposal-of-another', `it says ${by}, and was caused by another person or by a program`)
}

const checkProposal = (event: Recorded<'ProposalMade'>, context: Context): void => {
  checkProposalNames(event, context)
  const { rows, report } = context
  const { proposalId, by, what, expiresAt } = event.data
  const [atMs, expiresMs] = [recordedMs(event), Date.parse(expiresAt)]
  const row = rows.get(proposalsTable, [proposalId])
  if (row !== undefined && row.state !== 'closed' && (row.state !== 'open' || atMs < row.expiresMs))
    report('proposed-twice', `proposal ${proposalId} was made before, and is not over`)
  if (what.kind !== 'setting' && proposalIdOf(what) !== proposalId)
    report('proposal-of-another-thing', `what it proposes is another proposal`)
  if (expiresMs > atMs + proposalLifetimeMs) report('proposal-long', `it stands until ${expiresAt}`)
  rows.put(proposalsTable, {
    proposalId,
    what: proposedText(what),
    by,
    expiresMs,
    state: 'open',
  })
}

const checkAnswer = (event: Answered, context: Context): void => {
  checkProposalNames(event, context)
  const { rows, report } = context
  const { proposalId, by } = event.data
  const row = rows.get(proposalsTable, [proposalId])
  if (row?.state !== 'open') {
    report('proposal-not-open', `proposal ${proposalId} is not open`)
    return
  }
  if (recordedMs(event) >= row.expiresMs) report('proposal-expired', `proposal ${proposalId} was over`)
  const isWithdrawn = event.type === 'ProposalClosed' && event.data.reason === 'withdrawn'
  if ((by === row.by) !== isWithdrawn)
    report('four-eyes', `${by} ${isWithdrawn ? 'withdraws' : 'answers'} what ${row.by} proposed`)
  rows.put(proposalsTable, { ...row, state: event.type === 'ProposalApproved' ? 'approved' : 'closed' })
}

const checkLimit = (event: Recorded<'FourEyesSet'>, { rows, report }: Context): void => {
  const { limitCents, from, proposalId } = event.data
  const fromMs = Date.parse(from)
  if (event.stream !== approvalLimitsStream) report('limit-elsewhere', 'no limit is set here')
  if (fromMs !== recordedMs(event) + limitEffectiveDelayMs)
    report('limit-from', `it holds from ${from} on, which is not a minute after it was recorded`)
  const row = settingOf(rows)
  const lastLimitCents = row.limits.at(-1)?.limitCents ?? null
  if (lastLimitCents !== null && (limitCents === null || limitCents > lastLimitCents)) {
    const proposal = proposalId === null ? undefined : rows.get(proposalsTable, [proposalId])
    if (proposal?.state !== 'approved' || proposal.what !== proposedText({ kind: 'setting', limitCents }))
      report(
        'limit-unapproved',
        `it allows more than ${inDollars(centsToMicros(lastLimitCents))}, without an approval`,
      )
    else rows.put(proposalsTable, { ...proposal, state: 'used' })
  }
  rows.put(settingTable, { ...row, limits: [...row.limits, { limitCents, fromMs }] })
}

/**
 * Approvals. A manual movement or refund above the limit in force at its position has an earlier proposal and an
 * approval by another operator, for the same amount to the micro-dollar, and uses the approval once. A higher limit
 * needs an approval in the same way. What a run posts from statements counts together.
 */
export const approvalRules = eventRules({
  name: 'audit-approvals',
  version: 4,
  tables: [settingTable, proposalsTable, postedTable],
  reads: (event) => {
    switch (event.type) {
      case 'LogSealed':
        return event.stream === sealStream ? [settingKey] : []
      case 'RefundDecided':
        return isRefund(event) ? [settingKey, rowKey(proposalsTable, requiredProposalId(event))] : []
      case 'StatementLineBooked':
      case 'StatementLineCorrected': {
        const { proposalId } = event.data
        return proposalId === null
          ? [settingKey, rowKey(postedTable, event.metadata.correlationId)]
          : [rowKey(proposalsTable, proposalId)]
      }
      case 'ManualMovementRecorded':
      case 'DepositRefundRequested':
        return [settingKey, rowKey(proposalsTable, requiredProposalId(event))]
      case 'FourEyesSet': {
        const { proposalId } = event.data
        return proposalId === null ? [settingKey] : [settingKey, rowKey(proposalsTable, proposalId)]
      }
      default:
        return [rowKey(proposalsTable, event.data.proposalId)]
    }
  },
  on: {
    FourEyesSet: checkLimit,
    ProposalMade: checkProposal,
    ProposalApproved: checkAnswer,
    ProposalClosed: checkAnswer,
    LogSealed: ({ stream, data }, { rows }) => {
      const row = settingOf(rows)
      const lateMs = Date.parse(data.sealedAt)
      // Without a limit the time of the log is not needed.
      if (stream === sealStream && row.limits.length > 0 && lateMs > row.lateMs)
        rows.put(settingTable, { ...row, lateMs })
    },
    ManualMovementRecorded: checkMoved,
    DepositRefundRequested: checkMoved,
    StatementLineBooked: checkStatement,
    StatementLineCorrected: checkStatement,
    RefundDecided: (event, context) => {
      if (isRefund(event)) checkMoved(event, context)
    },
  },
})
