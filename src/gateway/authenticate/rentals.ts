import type pg from 'pg'
import type { EndpointProtocol } from '../../domain/shared/endpoint-fields.ts'
import type { StockedEndpoint } from '../../domain/stock/events.ts'
import { placeOfEndpoint, type StockLogins } from '../../features/stock/index.ts'
import type { MonotonicClock } from '../../kernel/clock.ts'
import type { AccountId, ProxyId } from '../../kernel/ids.ts'
import type { Login } from '../../platform/vault/logins.ts'
import { createCachedLookup } from './credential-cache.ts'

/** How a mobile rental goes from one exit of its carrier to the next. */
export type Rotation = {
  readonly carrierId: string
  /** Null: by its link. */
  readonly everyMs: number | null
  readonly sinceMs: number
  /** How often its link was used. */
  readonly turns: number
}

/** A supplier's proxy that a rental goes out through. */
export type RentalEndpoint = {
  readonly protocol: EndpointProtocol
  readonly host: string
  readonly port: number
  readonly udp: boolean
  /** Null: it takes none. */
  readonly login: Login | null
}

/** A dedicated address that is rented. */
export type Rental = {
  readonly proxyId: ProxyId
  readonly accountId: AccountId
  readonly ip: string
  readonly blocked: boolean
  readonly expiresAtMs: number
  /** Null: the address is one of a machine of ours, and goes out from there. */
  readonly endpoint: RentalEndpoint | null
  /** Of a mobile line; else null. */
  readonly rotation: Rotation | null
}

/**
 * Finds rentals, as of at most a second ago, and not from before `sinceMs` (as of `CachedLookup`). Rejects when Postgres does
 * not answer.
 */
export type Rentals = {
  /** That of the address of ours that a client dialled; null: nobody rents it. */
  at(address: string, sinceMs?: number): Promise<Rental | null>
  /** Also one that was given back: its end is then in the past. Null: there is none. */
  find(proxyId: ProxyId, sinceMs?: number): Promise<Rental | null>
}

type Row = {
  readonly proxy_id: ProxyId
  readonly account_id: AccountId
  readonly ip: string
  readonly ends_at: string
  readonly created_at: string
  readonly blocked: boolean
  readonly carrier_id: string | null
  readonly rotation_minutes: number | null
  readonly turns: number
  readonly endpoint: StockedEndpoint | null
  readonly sealed: Buffer | null
}

const minuteMs = 60_000
const maxRentals = 50_000

const columns = `
  select proxy.proxy_id, proxy.account_id, proxy.ip, proxy.created_at, account.blocked,
         least(proxy.expires_at, proxy.released_at) as ends_at,
         proxy.carrier_id, proxy.rotation_minutes, coalesce(turned.turns, 0) as turns,
         proxy.endpoint, credential.sealed
    from read.proxies proxy join read.accounts account on account.account_id = proxy.account_id
    left join work.rental_turns turned on turned.proxy_id = proxy.proxy_id
    left join vault.stock_credentials credential on credential.credential_id = proxy.endpoint->>'credentialId'`

export const createRentals = (deps: {
  readonly pool: pg.Pool
  readonly logins: Pick<StockLogins, 'open'>
  readonly monotonicMs: MonotonicClock
}): Rentals => {
  const { pool, logins, monotonicMs } = deps

  const endpointOf = ({ endpoint, sealed }: Row): RentalEndpoint | null => {
    if (endpoint === null) return null
    const { credentialId, ...rest } = endpoint
    const login =
      credentialId && sealed ? logins.open({ credentialId, place: placeOfEndpoint(rest) }, sealed) : null
    return { ...rest, login }
  }

  const rentalOf = (row: Row): Rental => ({
    proxyId: row.proxy_id,
    accountId: row.account_id,
    ip: row.ip,
    blocked: row.blocked,
    expiresAtMs: Date.parse(row.ends_at),
    endpoint: endpointOf(row),
    rotation:
      row.carrier_id === null || row.rotation_minutes === null
        ? null
        : {
            carrierId: row.carrier_id,
            everyMs: row.rotation_minutes === 0 ? null : row.rotation_minutes * minuteMs,
            sinceMs: Date.parse(row.created_at),
            turns: Number(row.turns),
          },
  })

  const reader = (name: string, where: string) => async (key: string) => {
    const { rows } = await pool.query<Row>({ name, text: `${columns} where ${where}`, values: [key] })
    return rows[0] ? rentalOf(rows[0]) : null
  }
  const at = reader(
    'gateway-rental-at',
    'proxy.ip = $1::text and proxy.released_at is null order by proxy.created_at desc limit 1',
  )
  const find = reader('gateway-rental', 'proxy.proxy_id = $1::text')
  return {
    at: createCachedLookup({ read: at, max: maxRentals, monotonicMs }).find,
    find: createCachedLookup<ProxyId, Rental>({ read: find, max: maxRentals, monotonicMs }).find,
  }
}
