import type pg from 'pg'
import type { Logger } from 'pino'
import { accountRef } from '../../domain/accounts/fold.ts'
import type { EndpointProtocol } from '../../domain/shared/endpoint-fields.ts'
import type { StockedEndpoint } from '../../domain/stock/events.ts'
import { stockRef } from '../../domain/stock/fold.ts'
import { placeOfEndpoint, type StockLogins } from '../../features/stock/index.ts'
import type { MonotonicClock } from '../../kernel/clock.ts'
import type { AccountId, ProxyId } from '../../kernel/ids.ts'
import type { StreamStates } from '../../platform/commands/log-states.ts'
import type { Login } from '../../platform/vault/logins.ts'
import {
  type ComparedRow,
  createCachedLookup,
  createComparison,
  foldedThrough,
  type LoggedFacts,
} from './cached-reads.ts'

/** How a mobile rental switches between the exits of its carrier. */
export type Rotation = {
  readonly carrierId: string
  /** Null: only by its link. */
  readonly everyMs: number | null
  readonly sinceMs: number
  /** How often the link was used. */
  readonly turns: number
}

/** The supplier's proxy that carries the traffic of a rental. */
type RentalEndpoint = {
  readonly protocol: EndpointProtocol
  readonly host: string
  readonly port: number
  readonly udp: boolean
  /** Null: no login. */
  readonly login: Login | null
}

/** A rented dedicated address, from the log. */
export type Rental = {
  readonly proxyId: ProxyId
  readonly accountId: AccountId
  readonly ip: string
  readonly blocked: boolean
  readonly expiresAtMs: number
  /** Null: the address belongs to one of our machines, which connects to the target itself. */
  readonly endpoint: RentalEndpoint | null
  /** Null: not a mobile rental. */
  readonly rotation: Rotation | null
}

/**
 * Finds rentals, as of at most a second ago, and not from before `sinceMs` (see `CachedLookup`). Rejects when Postgres
 * or the log does not answer.
 */
export type Rentals = {
  /** The rental of our address that a client dialled; null: the address is not rented. */
  at(address: string, sinceMs?: number): Promise<Rental | null>
  /** Also returns a rental that was given back, with an end in the past; null: there is none. */
  find(proxyId: ProxyId, sinceMs?: number): Promise<Rental | null>
}

type Row = ComparedRow & {
  readonly proxy_id: ProxyId
  readonly account_id: AccountId
  readonly product_id: string
  readonly country: string
  readonly ip: string
  readonly expires_at: string
  readonly released_at: string | null
  readonly created_at: string
  /** Null: the account of the row does not exist. */
  readonly blocked: boolean | null
  readonly carrier_id: string | null
  readonly rotation_minutes: number | null
  readonly turns: number
  readonly endpoint: StockedEndpoint | null
  readonly sealed: Buffer | null
}

/** The fields of a row that the log has too. */
type RentalRowFacts = {
  readonly accountId: AccountId
  readonly blocked: boolean | null
  readonly ip: string
  readonly expiresAtMs: number
  readonly carrierId: string | null
  readonly endpoint: StockedEndpoint | null
}
type RentalFacts = RentalRowFacts & { readonly blocked: boolean }

const rowFactsOf = (row: Row): RentalRowFacts | null =>
  row.released_at === null
    ? {
        accountId: row.account_id,
        blocked: row.blocked,
        ip: row.ip,
        expiresAtMs: Date.parse(row.expires_at),
        carrierId: row.carrier_id,
        endpoint: row.endpoint,
      }
    : null

const minuteMs = 60_000
const maxRentals = 50_000

const columns = `
  select proxy.proxy_id, proxy.account_id, proxy.product_id, proxy.country, proxy.ip, proxy.created_at,
         proxy.expires_at, proxy.released_at, account.blocked,
         proxy.carrier_id, proxy.rotation_minutes, coalesce(turned.turns, 0) as turns,
         proxy.endpoint, credential.sealed, ${foldedThrough}
    from read.proxies proxy left join read.accounts account on account.account_id = proxy.account_id
    left join work.rental_turns turned on turned.proxy_id = proxy.proxy_id
    left join vault.stock_credentials credential on credential.credential_id = proxy.endpoint->>'credentialId'`

export const createRentals = (dependencies: {
  readonly pool: pg.Pool
  readonly accountOf: StreamStates
  readonly stockOf: StreamStates
  readonly logins: Pick<StockLogins, 'open'>
  readonly monotonicMs: MonotonicClock
  readonly logger: Pick<Logger, 'error'>
}): Rentals => {
  const { pool, accountOf, stockOf, logins, monotonicMs, logger } = dependencies

  /** A rental that ended is in no stock stream, so its facts are null. */
  const logged = async (row: Row): Promise<LoggedFacts<RentalFacts>> => {
    const [{ state, position }, accountOfRow] = await Promise.all([
      stockOf(stockRef(row.product_id, row.country)),
      accountOf(accountRef(row.account_id)),
    ])
    const rental = state.rentals.get(row.proxy_id)
    if (!rental) return { facts: null, position }
    const accountId = rental.accountId as AccountId
    const account = accountId === row.account_id ? accountOfRow : await accountOf(accountRef(accountId))
    const { ip, expiresAtMs } = rental
    const { carrierId = null, endpoint = null } = state.addresses.get(ip) ?? {}
    const blocked = account.state?.blocked ?? true
    const facts = { accountId, blocked, ip, expiresAtMs, carrierId, endpoint }
    return { facts, position: Math.max(position, account.position) }
  }

  const factsOf = createComparison({
    entity: 'rental',
    idOf: ({ proxy_id }: Row) => proxy_id,
    rowFactsOf: rowFactsOf,
    readLog: logged,
    monotonicMs,
    logger,
    maxCached: maxRentals,
  })

  const sealedOf = async (credentialId: string, row: Row): Promise<Buffer | null> => {
    if (credentialId === row.endpoint?.credentialId) return row.sealed
    const { rows } = await pool.query<Pick<Row, 'sealed'>>(
      'select sealed from vault.stock_credentials where credential_id = $1::text',
      [credentialId],
    )
    return rows[0]?.sealed ?? null
  }

  const endpointOf = async (endpoint: StockedEndpoint | null, row: Row): Promise<RentalEndpoint | null> => {
    if (endpoint === null) return null
    const { credentialId, ...endpointAddress } = endpoint
    const sealed = credentialId && (await sealedOf(credentialId, row))
    const login =
      credentialId && sealed
        ? logins.open({ credentialId, place: placeOfEndpoint(endpointAddress) }, sealed)
        : null
    return { ...endpointAddress, login }
  }

  const rentalOf = async (row: Row): Promise<Rental> => {
    const { carrier_id, rotation_minutes } = row
    const facts = await factsOf(row)
    const { accountId, blocked, ip, expiresAtMs, carrierId, endpoint } = facts ?? {
      accountId: row.account_id,
      blocked: row.blocked ?? true,
      ip: row.ip,
      // The rental ended.
      expiresAtMs: 0,
      carrierId: carrier_id,
      endpoint: null,
    }
    return {
      proxyId: row.proxy_id,
      accountId,
      blocked,
      ip,
      expiresAtMs,
      endpoint: await endpointOf(endpoint, row),
      rotation:
        carrierId === null || rotation_minutes === null
          ? null
          : {
              carrierId,
              everyMs: rotation_minutes === 0 ? null : rotation_minutes * minuteMs,
              sinceMs: Date.parse(row.created_at),
              turns: Number(row.turns),
            },
    }
  }

  const reader = (name: string, condition: string) => async (key: string) => {
    const { rows } = await pool.query<Row>({ name, text: `${columns} where ${condition}`, values: [key] })
    return rows[0] ? rentalOf(rows[0]) : null
  }
  const at = reader(
    'gateway-rental-at',
    'proxy.ip = $1::text and proxy.released_at is null order by proxy.created_at desc limit 1',
  )
  const find = reader('gateway-rental', 'proxy.proxy_id = $1::text')
  return {
    at: createCachedLookup<string, Rental>({
      read: async (address) => {
        const rental = await at(address)
        return rental?.ip === address ? rental : null
      },
      max: maxRentals,
      monotonicMs,
    }).find,
    find: createCachedLookup<ProxyId, Rental>({ read: find, max: maxRentals, monotonicMs }).find,
  }
}
