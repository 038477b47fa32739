import type pg from 'pg'
import type { FoundProxy } from '../../../projections/proxies.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { ProxyId } from '../../kernel/ids.ts'
import { refuse, refuseWithRetryAfter } from '../../platform/http/errors.ts'
import type { Credentials } from '../../platform/vault/credentials.ts'
import type { ProxyRecord } from './proxy-record.ts'

/** The shortest time between two rotations of a rental by its link. */
export const rotateEveryMs = 10_000

export const rotatePath = '/api/v1/proxies/{id}/rotate/{token}'

/** The secrets of a rental: only its renter may read them. */
export const proxySecrets = (
  { credentials, publicUrl }: { readonly credentials: Credentials; readonly publicUrl: () => string },
  row: Pick<FoundProxy, 'proxyId' | 'rotationMinutes'>,
): Pick<ProxyRecord, 'username' | 'password' | 'rotateUrl'> => {
  const id = row.proxyId as ProxyId
  const path = rotatePath.replace('{id}', id).replace('{token}', credentials.rotationToken(id))
  return { ...credentials.of(id, 0), rotateUrl: row.rotationMinutes === 0 ? `${publicUrl()}${path}` : null }
}

/** Switches a rental to its next exit, in all gateways within a second. @returns 0, or the milliseconds to wait */
export const rotateExit = async (pool: pg.Pool, proxyId: string, nowMs: number): Promise<number> => {
  const { rowCount } = await pool.query({
    name: 'turn-rental',
    text: `insert into work.rental_turns as turned (proxy_id, turns, turned_at) values ($1::text, 1, $2::timestamptz)
           on conflict (proxy_id) do update set turns = turned.turns + 1, turned_at = excluded.turned_at
            where turned.turned_at <= excluded.turned_at - interval '${rotateEveryMs} milliseconds'`,
    values: [proxyId, isoTime(nowMs)],
  })
  if (rowCount === 1) return 0
  const { rows } = await pool.query<{ turned_at: string }>(
    'select turned_at from work.rental_turns where proxy_id = $1::text',
    [proxyId],
  )
  return Math.max(1, Date.parse(rows[0]?.turned_at ?? '') + rotateEveryMs - nowMs || rotateEveryMs)
}

/** The rotation of a rental. `over`: it has ended. */
export type RotationState = { readonly rotation_minutes: number | null; readonly over: boolean }

/**
 * Switches a mobile line that rotates by link to another exit.
 * @throws ApiError not_found, rental_ended, rate_limited
 */
export const rotateNow = async (
  pool: pg.Pool,
  proxyId: string,
  row: RotationState | null,
  nowMs: number,
): Promise<void> => {
  if (row?.rotation_minutes !== 0) throw refuse('not_found', 'no line rotates by this link')
  if (row.over) throw refuse('rental_ended', `the rental of ${proxyId} has ended: it rotates no more`)
  const waitMs = await rotateExit(pool, proxyId, nowMs)
  if (waitMs > 0)
    throw refuseWithRetryAfter('rate_limited', `${proxyId} rotated a moment ago`, waitMs / 1_000)
}
