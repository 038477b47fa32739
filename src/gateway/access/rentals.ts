import { LRUCache } from 'lru-cache'
import type pg from 'pg'
import type { MonotonicClock } from '../../kernel/clock.ts'
import type { AccountId, ProxyId } from '../../kernel/ids.ts'

/** A dedicated address that is rented now. */
export type Rental = {
  readonly proxyId: ProxyId
  readonly accountId: AccountId
  readonly ip: string
  readonly blocked: boolean
  readonly expiresAtMs: number
}

/** Finds the rental of the address of ours that a client dialled. */
export type Rentals = {
  /** As of at most a second ago; null: nobody rents it. Rejects when Postgres does not answer. */
  at(address: string): Promise<Rental | null>
}

const freshMs = 1_000
const staleMs = 30_000
const maxRentals = 50_000

type Found = { readonly rental: Rental | null; readonly askedMs: number }

export const createRentals = (deps: {
  readonly pool: pg.Pool
  readonly monotonicMs: MonotonicClock
}): Rentals => {
  const { pool, monotonicMs } = deps
  const cached = new LRUCache<string, Found>({ max: maxRentals })
  const reading = new Map<string, Promise<Rental | null>>()

  const read = async (address: string): Promise<Rental | null> => {
    const askedMs = monotonicMs()
    const { rows } = await pool.query<{
      proxy_id: ProxyId
      account_id: AccountId
      expires_at: string
      blocked: boolean
    }>({
      name: 'gateway-rental',
      text: `select proxy.proxy_id, proxy.account_id, proxy.expires_at, account.blocked
               from read.proxies proxy join read.accounts account on account.account_id = proxy.account_id
              where proxy.ip = $1::text and proxy.released_at is null
              order by proxy.created_at desc limit 1`,
      values: [address],
    })
    const [row] = rows
    const rental =
      row === undefined
        ? null
        : {
            proxyId: row.proxy_id,
            accountId: row.account_id,
            ip: address,
            blocked: row.blocked,
            expiresAtMs: Date.parse(row.expires_at),
          }
    cached.set(address, { rental, askedMs })
    return rental
  }

  return {
    at: async (address) => {
      const found = cached.get(address)
      const ageMs = found ? monotonicMs() - found.askedMs : Number.POSITIVE_INFINITY
      if (found && ageMs < freshMs) return found.rental
      const running = reading.get(address) ?? read(address).finally(() => reading.delete(address))
      reading.set(address, running)
      try {
        return await running
      } catch (error) {
        if (found && ageMs < staleMs) return found.rental
        throw error
      }
    },
  }
}
