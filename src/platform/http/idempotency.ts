import type { z } from 'zod'
import { type ApiError, refuse } from './errors.ts'

/** Headers that the fresh answer to a request with an `Idempotency-Key` and the answer to its retry may carry. */
export const keyHeaders = { 'Idempotency-Key': 'The key of the request: yours, or the one the server made' }
export const replayHeaders = { 'Idempotency-Replayed': '`true`: the answer of an earlier request' }

/** What came of a request with a key, whatever it made. */
export type IdempotentResult = {
  /** What the key names stood already. */
  readonly replayed: boolean
  readonly idempotencyKey: string
  /** A read from here on shows it, also when an earlier request made it: who retries may have lost the first answer. */
  readonly position: number | null
}

/** The refusal of a key that was used with a different request. */
export const keyConflict = (): ApiError =>
  refuse(
    'idempotency_conflict',
    'This Idempotency-Key was already used with a different request. Use a new key.',
  )

/** The header that tells which it was. */
export const keyHeader = ({ replayed, idempotencyKey }: Omit<IdempotentResult, 'position'>) =>
  replayed ? { 'idempotency-replayed': 'true' } : { 'idempotency-key': idempotencyKey }

/**
 * The two answers of `idempotentAnswer` as a route declares them. `made` and `stood` describe them, `example` is one of both.
 */
export const idempotentResponses = <Body extends z.ZodType>(
  body: Body,
  example: unknown,
  { made, stood }: { readonly made: string; readonly stood: string },
) => ({
  201: { description: made, body, example, headers: keyHeaders },
  200: { description: stood, body, example, headers: replayHeaders },
})

/** 201 for what was made now, 200 with `Idempotency-Replayed` for what stood under its key. */
export const idempotentAnswer = <Body>(made: IdempotentResult, body: Body) =>
  ({
    status: made.replayed ? 200 : 201,
    body,
    headers: keyHeader(made),
    position: made.position,
  }) as const
