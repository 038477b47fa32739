import type { Fold } from '../../kernel/decider.ts'
import { defineEvent, type EventOf } from '../../kernel/event.ts'
import { flag, id, integer, micros, orAbsent, type ShapeValue, text } from '../../kernel/event-fields.ts'
import type { AccountId, KeyId, ScrapeBatchId } from '../../kernel/ids.ts'
import { scrapeBatchStream } from '../../kernel/streams.ts'

export type AcceptDecision =
  | { readonly outcome: 'decided'; readonly events: readonly ScrapeBatchAccepted[]; readonly isNew: boolean }
  | { readonly outcome: 'refused'; readonly refusal: { readonly code: 'idempotency_conflict' } }

/** Accepts a batch, once per id. The same request again changes nothing. Refusal: `idempotency_conflict`. */
export const decideAccept = (
  state: ScrapeBatchState,
  batchRequest: ScrapeBatchAccepted['data'],
): AcceptDecision => {
  if (state === null)
    return { outcome: 'decided', events: [{ type: 'ScrapeBatchAccepted', data: batchRequest }], isNew: true }
  return state.accepted.fingerprint === batchRequest.fingerprint
    ? { outcome: 'decided', events: [], isNew: false }
    : { outcome: 'refused', refusal: { code: 'idempotency_conflict' } }
}

/**
 * Finishes a batch whose calls have all ended, once. If a crash lost the acceptance, it is recorded here too.
 * @throws if the number of ended calls is not the number of accepted calls
 */
export const decideFinish = (
  state: ScrapeBatchState,
  batchRequest: ScrapeBatchAccepted['data'],
  { chargedMicros, canceledCalls, ...tally }: BatchTally & { readonly chargedMicros: number },
  isCanceled: boolean,
): { readonly outcome: 'decided'; readonly events: readonly ScrapeBatchEvent[] } => {
  if (state?.finished) return { outcome: 'decided', events: [] }
  const { batchId, accountId, platform, operation, inputs } = state?.accepted ?? batchRequest
  const sum = Object.values(tally).reduce((total, count) => total + count, canceledCalls)
  if (sum !== inputs) throw new Error(`batch ${batchId} has ${inputs} calls, and ${sum} of them are over`)
  const data = {
    ...{ batchId, accountId, platform, operation, inputs, ...tally, chargedMicros },
    ...(isCanceled && { canceled: true }),
    ...(canceledCalls > 0 && { canceledCalls }),
  }
  const finished: ScrapeBatchEvent = { type: 'ScrapeBatchFinished', data }
  return {
    outcome: 'decided',
    events: state === null ? [{ type: 'ScrapeBatchAccepted', data: batchRequest }, finished] : [finished],
  }
}

const stream = 'batch-{batch}'

/** The common fields of both events of a `batch-{id}` stream. */
const batch = {
  batchId: id<ScrapeBatchId>('scb', 'the batch'),
  accountId: id<AccountId>('acc', 'the account that pays'),
  platform: text('e.g. `tiktok`'),
  operation: text('e.g. `profile`'),
  inputs: integer('calls', 'above 0', 'how many calls it is'),
}

export const scrapeBatchAccepted = defineEvent('ScrapeBatchAccepted', {
  stream,
  means:
    'A batch of calls was accepted. Its inputs are stored outside the log, because they may name people.',
  fields: {
    ...batch,
    keyId: id<KeyId>('key', 'the key of the request'),
    requestId: text('the `X-Request-Id`'),
    fingerprint: text('SHA-256 of scraper and inputs, which a retry must match'),
  },
})
export type ScrapeBatchAccepted = EventOf<typeof scrapeBatchAccepted>

const tallyFields = {
  found: integer('calls', '0 or more', 'calls with the outcome `found`'),
  empty: integer('calls', '0 or more', 'that found nothing there'),
  notFound: integer('calls', '0 or more', 'calls for targets that do not exist'),
  restricted: integer('calls', '0 or more', 'calls for targets that are not public'),
  failed: integer('calls', '0 or more', 'that came to no result, also for want of money'),
}
/** The number of calls per outcome. */
export type BatchTally = ShapeValue<typeof tallyFields> & {
  /** The calls that were not made. */
  readonly canceledCalls: number
}

export const scrapeBatchFinished = defineEvent('ScrapeBatchFinished', {
  stream,
  means: 'Every call of a batch has ended. The cost of each is in its own stream and in the ledger.',
  fields: {
    ...batch,
    ...tallyFields,
    chargedMicros: micros('0 or more', 'the cost of all calls'),
    canceled: orAbsent(flag('true: it was canceled before its end; absent otherwise')),
    canceledCalls: orAbsent(
      integer('calls', 'above 0', 'that were not made because the batch was canceled; absent for none'),
    ),
  },
})
export type ScrapeBatchFinished = EventOf<typeof scrapeBatchFinished>

export const scrapeBatchEventDefinitions = [scrapeBatchAccepted, scrapeBatchFinished] as const
export type ScrapeBatchEvent = EventOf<(typeof scrapeBatchEventDefinitions)[number]>

/** A batch; `finished` is null as long as it has running calls. */
export type ScrapeBatch = {
  readonly accepted: ScrapeBatchAccepted['data']
  readonly finished: ScrapeBatchFinished['data'] | null
}
/** Null: it was not accepted. */
export type ScrapeBatchState = ScrapeBatch | null

const scrapeBatchFold: Fold<ScrapeBatchState, ScrapeBatchEvent> = {
  name: 'scrape-batch',
  version: 1,
  initial: null,
  usedOnce: true,
  evolve: (state, event) => {
    switch (event.type) {
      case 'ScrapeBatchAccepted':
        return { accepted: event.data, finished: null }
      case 'ScrapeBatchFinished':
        if (state === null) throw new Error(`batch ${event.data.batchId} ended and was never accepted`)
        return { ...state, finished: event.data }
      default: {
        const unknown: never = event
        throw new Error(`unknown event of a batch ${JSON.stringify(unknown)}`)
      }
    }
  },
}

/** The stream reference of a batch for a command. */
export const scrapeBatchRef = (batch: ScrapeBatchId) => ({
  stream: scrapeBatchStream(batch),
  fold: scrapeBatchFold,
})
