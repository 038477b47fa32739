import type pg from 'pg'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { refuseWithRetryAfter } from '../../platform/http/errors.ts'

/** Allowed requests per minute, and the size of the burst. Null: no limit per endpoint. */
type PerMinute = { readonly endpoint: number | null; readonly account: number }

/**
 * Limits on the webhooks that an account requests by hand. Ordinary events are limited by purchases. Manual requests
 * are not, and they go to any registered host. A registration counts because a new endpoint receives an event for each
 * plan that is already low.
 */
export const allowances = {
  test: { endpoint: 5, account: 10 },
  redelivery: { endpoint: 30, account: 60 },
  outage: { endpoint: 5, account: 10 },
  registration: { endpoint: null, account: 20 },
} as const satisfies Readonly<Record<string, PerMinute>>

type ManualOperation = keyof typeof allowances

/** @throws rate_limited, with the seconds to wait */
export type TakeAllowance = (
  manualOperation: ManualOperation,
  accountId: AccountId,
  endpointId: string | null,
) => Promise<void>

const operationLabels: Readonly<Record<ManualOperation, string>> = {
  test: 'pings',
  redelivery: 'redeliveries',
  outage: 'redeliveries of all that was missed',
  registration: 'registrations of webhook endpoints',
}

/**
 * Counts requests in Postgres, so that all processes share one count. The account's endpoint stream is not used: a
 * limit on repeated requests must not append an event for each of them. Losing a count with a restored backup does no
 * harm.
 * @param limited false: nothing is counted (FAREBOX_RATE_LIMIT=off)
 */
export const createAllowance = (deps: {
  readonly pool: pg.Pool
  readonly clock: Clock
  readonly limited: boolean
}): TakeAllowance => {
  const { pool, clock, limited } = deps
  return async (manualOperation, accountId, endpointId) => {
    if (!limited) return
    const { endpoint, account } = allowances[manualOperation]
    // The subject contains the account: a caller that guesses another account's endpoint id does not use up its
    // allowance.
    const rateLimits = [
      { subject: `${manualOperation} ${accountId}`, perMinute: account },
      ...(endpoint === null || endpointId === null
        ? []
        : [{ subject: `${manualOperation} ${accountId} ${endpointId}`, perMinute: endpoint }]),
    ]
    const { rows } = await pool.query<{ wait_ms: number }>({
      name: 'webhooks-allowance',
      text: 'select work.take_webhook_allowance($1::text[], $2::integer[], $3::timestamptz) as wait_ms',
      values: [
        rateLimits.map(({ subject }) => subject),
        rateLimits.map(({ perMinute }) => perMinute),
        isoTime(clock()),
      ],
    })
    const waitMs = rows[0]?.wait_ms ?? 0
    if (waitMs > 0)
      throw refuseWithRetryAfter(
        'rate_limited',
        `too many ${operationLabels[manualOperation]} in a minute`,
        waitMs / 1000,
      )
  }
}

/** Deletes buckets that are full again. */
export const deleteExpiredAllowances = async (pool: pg.Pool, nowMs: number): Promise<void> => {
  await pool.query({
    name: 'webhooks-forget-allowances',
    text: 'delete from work.webhook_allowances where spent_until < $1::timestamptz',
    values: [isoTime(nowMs)],
  })
}
