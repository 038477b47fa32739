import type pg from 'pg'
import { type FoundProxy, findProxies } from '../../../projections/proxies.ts'
import type { OrderEvent } from '../../domain/orders/events.ts'
import { orderAfter } from '../../domain/orders/fold.ts'
import type { Target } from '../../domain/shared/order-terms.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { AccountId, OrderId, ProxyId } from '../../kernel/ids.ts'
import type { AccountScope as Scope } from '../../kernel/scopes.ts'
import { orderStream } from '../../kernel/streams.ts'
import { createGenuineRows, type GenuineRows } from '../../platform/commands/genuine-rows.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import type { Credentials } from '../../platform/vault/credentials.ts'
import { customerRefs } from '../accounts/index.ts'
import { type GatewayAddress, type ProxyRecord, proxyRecord } from './proxy-record.ts'

type Owned = Pick<
  FoundProxy,
  'proxyId' | 'orderId' | 'customerId' | 'productId' | 'country' | 'carrierId' | 'service' | 'rotationMinutes'
>

/**
 * Verifies owner and line of rentals in the log: credentials and links derive from rental ids, and extensions are
 * priced.
 */
export type VerifyRentals = GenuineRows<Owned>

/** Whether a row has the line of the order. Null fields of the target match any value: not mobile, or not chosen. */
const isLineOf = (row: Owned, target: Target | null): boolean =>
  target !== null &&
  target.country === row.country &&
  (target.carrierId ?? row.carrierId) === row.carrierId &&
  (target.service ?? row.service) === row.service &&
  (target.rotationMinutes ?? row.rotationMinutes) === row.rotationMinutes

export const createRentalVerifier = (dependencies: Parameters<typeof createGenuineRows>[0]): VerifyRentals =>
  createGenuineRows<Owned>(dependencies, {
    keyOf: (row) =>
      [
        row.proxyId,
        row.orderId,
        row.customerId,
        row.productId,
        row.country,
        row.carrierId,
        row.service,
        row.rotationMinutes,
      ].join(' '),
    streamOf: (row) => orderStream(row.orderId as OrderId),
    isGenuine: (accountId, row, events) => {
      if (events.length === 0) return false
      const { details, proxyIds } = orderAfter(null, events as unknown as readonly OrderEvent[])
      return (
        details.accountId === accountId &&
        details.customerId === row.customerId &&
        details.productId === row.productId &&
        isLineOf(row, details.target) &&
        proxyIds.some((id) => id === row.proxyId)
      )
    },
  })

/**
 * Reads a rental within a caller's scope, including the account's own changes up to `after`.
 * @throws not_found for an absent rental and for one of another account
 */
export const createFindProxy =
  (dependencies: {
    readonly reads: Pick<Reads, 'settled'>
    readonly db: Db
    readonly verifyRentals: VerifyRentals
    readonly clock: Clock
  }) =>
  async (scope: Scope, proxyId: string, after: number | null): Promise<FoundProxy> => {
    await dependencies.reads.settled(scope.accountId, after ?? 0)
    const found = await findProxies(dependencies.db, scope, { proxyIds: [proxyId] }, dependencies.clock(), 1)
    const [proxy] = await dependencies.verifyRentals(scope.accountId, found)
    if (!proxy) throw refuse('not_found', 'no proxy has this id')
    return proxy
  }

export type FindProxy = ReturnType<typeof createFindProxy>

/** Rentals in the renter's view, with the reseller's own ids of its customers. */
export const createProxyRecords =
  (dependencies: {
    readonly pool: pg.Pool
    readonly verifyRentals: VerifyRentals
    readonly credentials: Credentials
    readonly publicUrl: () => string
    readonly gateway: GatewayAddress
    readonly clock: Clock
  }) =>
  async (accountId: AccountId, found: readonly FoundProxy[]): Promise<ProxyRecord[]> => {
    const rows = await dependencies.verifyRentals(accountId, found)
    const refs = await customerRefs(
      dependencies.pool,
      accountId,
      rows.map((row) => row.customerId),
    )
    return rows.map((row) => {
      const customer = refs.get(row.customerId) ?? null
      return proxyRecord(
        row,
        proxySecrets(dependencies, row),
        dependencies.clock(),
        customer,
        dependencies.gateway,
      )
    })
  }

export type ProxyRecords = ReturnType<typeof createProxyRecords>

export const rotatePath = '/api/v1/proxies/{id}/rotate/{token}'

/** The secrets of a rental: only its renter may read them. */
const proxySecrets = (
  { credentials, publicUrl }: { readonly credentials: Credentials; readonly publicUrl: () => string },
  row: Pick<FoundProxy, 'proxyId' | 'rotationMinutes'>,
): Pick<ProxyRecord, 'username' | 'password' | 'rotateUrl'> => {
  const id = row.proxyId as ProxyId
  const path = rotatePath.replace('{id}', id).replace('{token}', credentials.rotationToken(id))
  return { ...credentials.of(id, 0), rotateUrl: row.rotationMinutes === 0 ? `${publicUrl()}${path}` : null }
}
