import type pg from 'pg'
import type { MonotonicClock } from '../../kernel/clock.ts'
import type { AccountId, ProxyId } from '../../kernel/ids.ts'
import { createLookUp } from './look-up.ts'

/** How a mobile rental goes from one exit of its carrier to the next. */
export type Rotation = {
  readonly carrierId: string
  /** Null: by its link. */
  readonly everyMs: number | null
  readonly sinceMs: number
  /** How often its link was used. */
  readonly turns: number
}

/** A dedicated address that is rented now. */
export type Rental = {
  readonly proxyId: ProxyId
  readonly accountId: AccountId
  readonly ip: string
  readonly blocked: boolean
  readonly expiresAtMs: number
  /** Of a mobile line; else null. */
  readonly rotation: Rotation | null
}

/** Finds the rental of the address of ours that a client dialled. */
export type Rentals = {
  /** As of at most a second ago; null: nobody rents it. Rejects when Postgres does not answer. */
  at(address: string): Promise<Rental | null>
}

const minuteMs = 60_000
const maxRentals = 50_000

export const createRentals = (deps: {
  readonly pool: pg.Pool
  readonly monotonicMs: MonotonicClock
}): Rentals => {
  const { pool, monotonicMs } = deps

  const read = async (address: string): Promise<Rental | null> => {
    const { rows } = await pool.query<{
      proxy_id: ProxyId
      account_id: AccountId
      expires_at: string
      created_at: string
      blocked: boolean
      carrier_id: string | null
      rotation_minutes: number | null
      turns: number
    }>({
      name: 'gateway-rental',
      text: `select proxy.proxy_id, proxy.account_id, proxy.expires_at, proxy.created_at, account.blocked,
                    proxy.carrier_id, proxy.rotation_minutes, coalesce(turned.turns, 0) as turns
               from read.proxies proxy join read.accounts account on account.account_id = proxy.account_id
               left join work.rental_turns turned on turned.proxy_id = proxy.proxy_id
              where proxy.ip = $1::text and proxy.released_at is null
              order by proxy.created_at desc limit 1`,
      values: [address],
    })
    const [row] = rows
    if (row === undefined) return null
    return {
      proxyId: row.proxy_id,
      accountId: row.account_id,
      ip: address,
      blocked: row.blocked,
      expiresAtMs: Date.parse(row.expires_at),
      rotation:
        row.carrier_id === null || row.rotation_minutes === null
          ? null
          : {
              carrierId: row.carrier_id,
              everyMs: row.rotation_minutes === 0 ? null : row.rotation_minutes * minuteMs,
              sinceMs: Date.parse(row.created_at),
              turns: Number(row.turns),
            },
    }
  }

  return { at: createLookUp({ read, max: maxRentals, monotonicMs }).find }
}
