import type { Placed } from './service.ts'

/** Headers that the answer to a replayed order and to a fresh one may carry. */
export const replayHeaders = { 'Idempotency-Replayed': '`true`: the answer of an earlier request' }
export const keyHeaders = { 'Idempotency-Key': 'The key of the order: yours, or the one the server made' }

/** 201 for a fresh order, 200 with `Idempotency-Replayed` for the one that stood under its key. */
export const answerPlaced = <Body>(placed: Placed, body: Body) =>
  placed.replayed
    ? ({
        status: 200,
        body,
        headers: { 'idempotency-replayed': 'true' },
        position: placed.position,
      } as const)
    : ({
        status: 201,
        body,
        headers: { 'idempotency-key': placed.idempotencyKey },
        position: placed.position,
      } as const)
