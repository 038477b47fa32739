import type { z } from 'zod'
import { type ApiError, refuse } from './errors.ts'

/** Headers of the first answer to a request with an `Idempotency-Key`, and of the answer to its retry. */
export const keyHeaders = { 'Idempotency-Key': 'The key of the request: yours, or the one the server made' }
export const replayHeaders = { 'Idempotency-Replayed': '`true`: the answer of an earlier request' }

/** The result of a request with an idempotency key. */
export type IdempotentResult = {
  /** The resource of the key existed already. */
  readonly replayed: boolean
  readonly idempotencyKey: string
  /**
   * A read from this position shows the resource. It is set for a replay too: the client may have lost the first
   * answer.
   */
  readonly position: number | null
}

/** The refusal of a key that was used with a different request. */
export const keyConflict = (): ApiError =>
  refuse(
    'idempotency_conflict',
    'This Idempotency-Key was already used with a different request. Use a new key.',
  )

/** The response header that shows whether the answer is a replay. */
export const keyHeader = ({ replayed, idempotencyKey }: Omit<IdempotentResult, 'position'>) =>
  replayed ? { 'idempotency-replayed': 'true' } : { 'idempotency-key': idempotencyKey }

/**
 * The two declared answers of a route that uses `idempotentAnswer`. `made` and `stood` are their descriptions. Both
 * have the same `example`.
 */
export const idempotentResponses = <Body extends z.ZodType>(
  body: Body,
  example: unknown,
  { made, stood }: { readonly made: string; readonly stood: string },
) => ({
  201: { description: made, body, example, headers: keyHeaders },
  200: { description: stood, body, example, headers: replayHeaders },
})

/** 201 for a new resource, 200 with `Idempotency-Replayed` for a resource that its key already had. */
export const idempotentAnswer = <Body>(made: IdempotentResult, body: Body) =>
  ({
    status: made.replayed ? 200 : 201,
    body,
    headers: keyHeader(made),
    position: made.position,
  }) as const
