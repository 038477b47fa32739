import type pg from 'pg'
import { type FoundProxy, findProxies } from '../../../projections/proxies.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { AccountId } from '../../kernel/ids.ts'
import type { AccountScope as Scope } from '../../kernel/scopes.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import type { Credentials } from '../../platform/vault/credentials.ts'
import { customerRefs } from '../accounts/index.ts'
import { type GatewayPlace, type ProxyRecord, proxyRecord } from './proxy-record.ts'
import type { OwnRentals } from './rental-owners.ts'
import { proxySecrets } from './rotate-password.ts'

/**
 * Reads a rental within a caller's scope, including the account's own changes up to `after`.
 * @throws not_found for an absent rental and for one of another account
 */
export const createFindOwnProxy =
  (deps: {
    readonly reads: Pick<Reads, 'settled'>
    readonly db: Db
    readonly ownRentals: OwnRentals
    readonly clock: Clock
  }) =>
  async (scope: Scope, proxyId: string, after: number | null): Promise<FoundProxy> => {
    await deps.reads.settled(scope.accountId, after ?? 0)
    const found = await findProxies(deps.db, scope, { proxyIds: [proxyId] }, deps.clock(), 1)
    const [proxy] = await deps.ownRentals(scope.accountId, found)
    if (!proxy) throw refuse('not_found', 'no proxy has this id')
    return proxy
  }

export type FindOwnProxy = ReturnType<typeof createFindOwnProxy>

/** Rentals in the renter's view, with the reseller's own ids of its customers. */
export const createProxyRecords =
  (deps: {
    readonly pool: pg.Pool
    readonly ownRentals: OwnRentals
    readonly credentials: Credentials
    readonly publicUrl: () => string
    readonly gateway: GatewayPlace
    readonly clock: Clock
  }) =>
  async (accountId: AccountId, found: readonly FoundProxy[]): Promise<ProxyRecord[]> => {
    const rows = await deps.ownRentals(accountId, found)
    const refs = await customerRefs(
      deps.pool,
      accountId,
      rows.map((row) => row.customerId),
    )
    return rows.map((row) => {
      const customer = refs.get(row.customerId) ?? null
      return proxyRecord(row, proxySecrets(deps, row), deps.clock(), customer, deps.gateway)
    })
  }

export type ProxyRecords = ReturnType<typeof createProxyRecords>
