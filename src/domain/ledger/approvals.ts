import type { Fold, StreamRef } from '../../kernel/decider.ts'
import { defineEvent, type EventOf } from '../../kernel/event.ts'
import {
  anyId,
  cents,
  either,
  exactly,
  group,
  id,
  list,
  oneOf,
  orAbsent,
  orNull,
  text,
  time,
} from '../../kernel/event-fields.ts'
import { approvalLimitsStream, proposalStream } from '../../kernel/streams.ts'
import { movement } from './manual-movements.ts'

/** The stream `foureyes`: the amount above which manual movements need a second operator. */
const settingStream = 'foureyes'
/** A `proposal-{id}` stream: an action that one operator proposes and another approves. */
const stream = 'proposal-{proposal}'

const limitCents = orNull(cents('0 or more', 'the maximum amount without a second approver; null: unlimited'))

export const fourEyesSet = defineEvent('FourEyesSet', {
  stream: settingStream,
  means: 'The limit above which manual credits, adjustments and refunds need a second approver was changed.',
  fields: {
    limitCents,
    from: time('a minute after it was recorded, when every process has read it'),
    proposalId: orNull(
      id('prp', 'the approved proposal; null for a limit that allows no more than the one before it'),
    ),
  },
})
export type FourEyesSet = EventOf<typeof fourEyesSet>

const refund = group(
  {
    kind: exactly('refund', 'of an order'),
    accountId: id('acc', 'the account of the buyer'),
    orderId: id('ord', 'the order'),
    refundId: text('the refund'),
    amountCents: cents('0 or more', 'the refund of the payer'),
    costCents: orAbsent(cents('0 or more', "the refunded part of the reseller's cost")),
    proxyIds: list(id('prx', 'a rental'), 'the rentals that end'),
    reference: text('the reason'),
    asked: oneOf(
      ['whole', 'cents', 'proxies'],
      'everything that is left, an amount, or the price of these rentals',
    ),
  },
  'A refund of an order.',
)
const depositRefund = group(
  {
    kind: exactly('deposit_refund', 'of a payment, at its provider'),
    accountId: id('acc', 'the account of the wallet'),
    depositId: id('dep', 'the deposit'),
    refundId: text('the refund'),
    amountCents: cents('above 0', 'the refunded amount'),
    reference: text('the reason'),
  },
  'A refund of a deposit to the payer.',
)
const setting = group(
  { kind: exactly('setting', 'of four eyes'), limitCents },
  'A higher limit than the present one.',
)
const proposed = either(
  [movement, refund, depositRefund, setting],
  'the proposed action, which needs an approval',
)
/** An action that one operator proposes to another. */
export type ProposedAction = (typeof proposed)['_output']
export type ProposedRefund = Extract<ProposedAction, { readonly kind: 'refund' }>
export type ProposedDepositRefund = Extract<ProposedAction, { readonly kind: 'deposit_refund' }>

const proposalId = id('prp', 'the proposal')
const by = anyId(
  'the operator: `stf_…` of the console, or `operator:` and a name on the command line; `acc_…`: a reseller that proposed a movement of its customer',
)

export const proposalMade = defineEvent('ProposalMade', {
  stream,
  means:
    'An operator proposed an action that needs a second approver. Appended again if the previous proposal was withdrawn or expired.',
  fields: { proposalId, what: proposed, by, expiresAt: time('the end of the time for an approval') },
})
export const proposalApproved = defineEvent('ProposalApproved', {
  stream,
  means: 'Another operator approved the proposal; the events of the action follow in the log, once.',
  fields: { proposalId, by },
})
export const proposalClosed = defineEvent('ProposalClosed', {
  stream,
  means: 'The proposal can no longer be approved.',
  fields: {
    proposalId,
    by,
    reason: oneOf(['declined', 'withdrawn'], 'by another operator, or by its proposer'),
    note: orNull(text('the typed reason, which names no person; null: none')),
  },
})
export type ProposalMade = EventOf<typeof proposalMade>
export type ProposalEvent = EventOf<typeof proposalMade | typeof proposalApproved | typeof proposalClosed>

export const approvalEventDefinitions = [fourEyesSet, proposalMade, proposalApproved, proposalClosed] as const

type Limit = { readonly limitCents: number | null; readonly fromMs: number }

/** The limits in the order in which they take effect. Limits that no longer apply are dropped. */
export type ApprovalLimits = readonly Limit[]

/** The largest amount in cents that one operator may move alone at `atMs` since the epoch; null: any amount. */
export const approvalLimitAt = (limits: ApprovalLimits, atMs: number): number | null =>
  limits.findLast(({ fromMs }) => fromMs <= atMs)?.limitCents ?? null

export const approvalLimitsFold: Fold<ApprovalLimits, FourEyesSet> = {
  name: 'four-eyes',
  version: 1,
  initial: [],
  evolve: (limits, { data, recordedAtMs }) => {
    const current = limits.findLastIndex(({ fromMs }) => fromMs <= recordedAtMs)
    return [
      ...limits.slice(Math.max(current, 0)),
      { limitCents: data.limitCents, fromMs: Date.parse(data.from) },
    ]
  },
}

/** A proposal according to its stream; null if it was never made. */
export type Proposal = {
  readonly proposalId: string
  readonly what: ProposedAction
  /** The operator or the reseller who proposed it. */
  readonly by: string
  readonly proposedAtMs: number
  readonly expiresAtMs: number
  readonly status: 'open' | 'approved' | 'declined' | 'withdrawn'
  /** Who closed it, why and when. Null: it is not closed. */
  readonly closing: { readonly by: string; readonly note: string | null; readonly atMs: number } | null
} | null

export const proposalFold: Fold<Proposal, ProposalEvent> = {
  name: 'proposal',
  version: 2,
  initial: null,
  evolve: (state, event) => {
    if (event.type === 'ProposalMade') {
      const { expiresAt, ...proposalFields } = event.data
      return {
        ...proposalFields,
        proposedAtMs: event.recordedAtMs,
        expiresAtMs: Date.parse(expiresAt),
        status: 'open',
        closing: null,
      }
    }
    if (!state) throw new Error(`${event.type} on a proposal that was never made`)
    if (event.type === 'ProposalApproved') return { ...state, status: 'approved' }
    const { by, reason, note } = event.data
    return { ...state, status: reason, closing: { by, note, atMs: event.recordedAtMs } }
  },
}

export const approvalLimitsRef: StreamRef<ApprovalLimits> = {
  stream: approvalLimitsStream,
  fold: approvalLimitsFold,
}
export const proposalRef = (proposalId: string): StreamRef<Proposal> => ({
  stream: proposalStream(proposalId),
  fold: proposalFold,
})
