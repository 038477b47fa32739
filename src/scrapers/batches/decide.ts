import type { BatchTally, ScrapeBatchAccepted, ScrapeBatchEvent } from './events.ts'
import type { ScrapeBatchState } from './fold.ts'

export type AcceptDecision =
  | { readonly outcome: 'decided'; readonly events: readonly ScrapeBatchAccepted[]; readonly isNew: boolean }
  | { readonly outcome: 'refused'; readonly refusal: { readonly code: 'idempotency_conflict' } }

/** Takes a batch on, once an id for ever; the same request again changes nothing. */
export const decideAccept = (state: ScrapeBatchState, asked: ScrapeBatchAccepted['data']): AcceptDecision => {
  if (state === null)
    return { outcome: 'decided', events: [{ type: 'ScrapeBatchAccepted', data: asked }], isNew: true }
  return state.accepted.fingerprint === asked.fingerprint
    ? { outcome: 'decided', events: [], isNew: false }
    : { outcome: 'refused', refusal: { code: 'idempotency_conflict' } }
}

/**
 * Ends a batch whose calls are all over, once. One whose process died before it said that it had taken it on is taken on here.
 * @throws when the calls are not as many as were accepted
 */
export const decideFinish = (
  state: ScrapeBatchState,
  asked: ScrapeBatchAccepted['data'],
  { chargedMicros, ...tally }: BatchTally & { readonly chargedMicros: number },
): { readonly outcome: 'decided'; readonly events: readonly ScrapeBatchEvent[] } => {
  if (state?.finished) return { outcome: 'decided', events: [] }
  const { batchId, accountId, platform, operation, inputs } = state?.accepted ?? asked
  const sum = Object.values(tally).reduce((all, one) => all + one, 0)
  if (sum !== inputs) throw new Error(`batch ${batchId} has ${inputs} calls, and ${sum} of them are over`)
  const data = { batchId, accountId, platform, operation, inputs, ...tally, chargedMicros }
  const finished: ScrapeBatchEvent = { type: 'ScrapeBatchFinished', data }
  return {
    outcome: 'decided',
    events: state === null ? [{ type: 'ScrapeBatchAccepted', data: asked }, finished] : [finished],
  }
}
