import type { StreamRef } from '../../platform/eventstore/commands/command.ts'
import type { Fold } from '../../platform/eventstore/fold.ts'
import { fourEyesStream, proposalStream } from '../../terms/streams.ts'
import type { FourEyesSet, ProposalEvent, Proposed } from './approval-events.ts'

type Limit = { readonly limitCents: number | null; readonly fromMs: number }

/** The limits by when they hold, the last one last; those that hold no more are forgotten. */
export type FourEyes = readonly Limit[]

/** What one operator may move alone at this moment, in cents; null: any amount. */
export const limitAt = (limits: FourEyes, atMs: number): number | null =>
  limits.findLast(({ fromMs }) => fromMs <= atMs)?.limitCents ?? null

export const fourEyesFold: Fold<FourEyes, FourEyesSet> = {
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

/** A proposal as its stream has it; null for one that was never made. */
export type Proposal = {
  readonly proposalId: string
  readonly what: Proposed
  /** Who proposed it. */
  readonly by: string
  readonly proposedAtMs: number
  readonly expiresAtMs: number
  readonly status: 'open' | 'approved' | 'declined' | 'withdrawn'
} | null

export const proposalFold: Fold<Proposal, ProposalEvent> = {
  name: 'proposal',
  version: 1,
  initial: null,
  evolve: (state, event) => {
    if (event.type === 'ProposalMade') {
      const { expiresAt, ...made } = event.data
      return { ...made, proposedAtMs: event.recordedAtMs, expiresAtMs: Date.parse(expiresAt), status: 'open' }
    }
    if (!state) throw new Error(`${event.type} on a proposal that was never made`)
    return { ...state, status: event.type === 'ProposalApproved' ? 'approved' : event.data.reason }
  },
}

export const fourEyesRef: StreamRef<FourEyes> = { stream: fourEyesStream, fold: fourEyesFold }
export const proposalRef = (proposalId: string): StreamRef<Proposal> => ({
  stream: proposalStream(proposalId),
  fold: proposalFold,
})
