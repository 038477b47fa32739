import { type Kysely, sql } from 'kysely'
import type { ReadDatabase } from '../../../projections/database.ts'
import { isoTime } from '../../kernel/clock.ts'
import { countedPage } from '../../platform/postgres/counted-page.ts'
import type { Scope } from '../../terms/holder.ts'
import type { LabelDatabase } from '../labels/database.ts'
import { expiringMs, type FoundProxy, type ProxyStatus } from './record.ts'

export type ProxyQueries = Kysely<ReadDatabase & LabelDatabase>

export type ProxyFilter = {
  readonly family?: string | undefined
  readonly productId?: string | undefined
  readonly orderId?: string | undefined
  readonly country?: string | undefined
  /** `running`: active or expiring. */
  readonly status?: ProxyStatus | 'running' | undefined
  /** Milliseconds since the epoch. */
  readonly expiresBeforeMs?: number | undefined
  readonly proxyIds?: readonly string[] | undefined
}

const proxiesOf = (
  db: ProxyQueries,
  { accountId, customerId }: Scope,
  filter: ProxyFilter,
  nowMs: number,
) => {
  let fitting = db
    .selectFrom('read.proxies as proxy')
    .leftJoin('vault.labels as label', 'label.resource_id', 'proxy.proxy_id')
    .where('proxy.account_id', '=', accountId)
  if (customerId !== null) fitting = fitting.where('proxy.customer_id', '=', customerId)
  const { family, productId, orderId, country, status, expiresBeforeMs, proxyIds } = filter
  if (family !== undefined) fitting = fitting.where('proxy.family', '=', family)
  if (productId !== undefined) fitting = fitting.where('proxy.product_id', '=', productId)
  if (orderId !== undefined)
    // An order that extends rentals names those of other orders.
    fitting = fitting.where('proxy.order_id', '=', orderId).where(sql<boolean>`proxy.proxy_id = any (array(
        select unnest(proxy_ids) from read.orders where order_id = ${orderId}::text))`)
  if (country !== undefined) fitting = fitting.where('proxy.country', '=', country)
  if (proxyIds !== undefined) fitting = fitting.where('proxy.proxy_id', 'in', [...proxyIds])
  if (expiresBeforeMs !== undefined)
    fitting = fitting.where('proxy.expires_at', '<', isoTime(expiresBeforeMs))
  if (status === undefined) return fitting
  // The same rules as `proxyStatus`.
  const now = isoTime(nowMs)
  const soon = isoTime(nowMs + expiringMs)
  if (status === 'expired')
    return fitting.where((is) =>
      is.or([is('proxy.released_at', 'is not', null), is('proxy.expires_at', '<=', now)]),
    )
  const running = fitting.where('proxy.released_at', 'is', null).where('proxy.expires_at', '>', now)
  if (status === 'running') return running
  return status === 'expiring'
    ? running.where('proxy.expires_at', '<=', soon)
    : running.where('proxy.expires_at', '>', soon)
}

/** All rentals within the scope that fit, up to `limit`. */
export const findProxies = (
  db: ProxyQueries,
  scope: Scope,
  filter: ProxyFilter,
  nowMs: number,
  limit: number,
): Promise<FoundProxy[]> =>
  proxiesOf(db, scope, filter, nowMs)
    .selectAll('proxy')
    .select('label.label')
    .orderBy('proxy.proxy_id')
    .limit(limit)
    .execute() as Promise<FoundProxy[]>

/** A page of the rentals within the scope, newest first, and how many fit the filter. */
export const listProxies = async (
  db: ProxyQueries,
  scope: Scope,
  filter: ProxyFilter,
  page: { readonly limit: number; readonly offset: number },
  nowMs: number,
): Promise<{ proxies: readonly FoundProxy[]; total: number }> => {
  const fitting = proxiesOf(db, scope, filter, nowMs)
  const { rows, total } = await countedPage(
    fitting
      .selectAll('proxy')
      .select('label.label')
      .orderBy('proxy.created_at', 'desc')
      .orderBy('proxy.proxy_id', 'desc'),
    fitting.select((is) => is.fn.countAll<number>().as('total')),
    page,
  )
  return { proxies: rows as readonly FoundProxy[], total }
}

/**
 * Up to `limit` rentals within the scope that fit, newest first, that come after one; null: from the newest on. However
 * many there are before, none of them is read.
 */
export const proxiesAfter = (
  db: ProxyQueries,
  scope: Scope,
  filter: ProxyFilter,
  page: { readonly after: { readonly at: string; readonly id: string } | null; readonly limit: number },
  nowMs: number,
): Promise<readonly FoundProxy[]> => {
  let fitting = proxiesOf(db, scope, filter, nowMs)
  if (page.after !== null) {
    const { at, id } = page.after
    fitting = fitting
      .where('proxy.created_at', '<=', at)
      .where(sql<boolean>`(proxy.created_at, proxy.proxy_id) < (${at}::timestamptz, ${id}::text)`)
  }
  return fitting
    .selectAll('proxy')
    .select('label.label')
    .orderBy('proxy.created_at', 'desc')
    .orderBy('proxy.proxy_id', 'desc')
    .limit(page.limit)
    .execute() as Promise<FoundProxy[]>
}
