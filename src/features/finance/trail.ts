import type pg from 'pg'
import { gatewayAccount } from '../../domain/ledger/postings.ts'
import { holdIdOf } from '../../domain/scrapers/calls.ts'
import { maxAttempts } from '../../domain/scrapers/decide-call.ts'
import type { AccountId, NoticeId, OrderId, PlanId, ScrapeId, SubscriptionId } from '../../kernel/ids.ts'
import {
  accountStream,
  depositStream,
  noticeStream,
  orderStream,
  planStream,
  type StreamName,
  scrapeStream,
  stockStream,
  subscriptionStream,
  termsStream,
  webhooksStream,
} from '../../kernel/streams.ts'
import { requireReadTable } from '../../platform/cli/cli-context.ts'
import { type ResourcePrefix, resourcePrefix } from './resource-ids.ts'

/** The places in the log with events about a resource. */
export type Trail = {
  /** Streams in which every event is about it. */
  readonly own: readonly StreamName[]
  /** Streams in which only events that name it are about it. */
  readonly shared: readonly StreamName[]
  /** Positions of journal entries about it. */
  readonly positions: readonly number[]
}

type Find = (pool: pg.Pool, id: string) => Promise<Partial<Trail>>

const entriesBy = async (pool: pg.Pool, condition: string, value: string): Promise<readonly number[]> => {
  const { rows } = await pool.query<{ position: number }>(
    `select e.position from read.journal_entries e where ${condition} order by e.position`,
    [value],
  )
  return rows.map(({ position }) => position)
}

/** The shared streams of the rows of a read table; empty without a row. */
const streamsOfRow = async <Row extends object>(
  pool: pg.Pool,
  { table, key, id }: { readonly table: `read.${string}`; readonly key: string; readonly id: string },
  streamOf: (row: Row) => StreamName,
): Promise<Partial<Trail>> => {
  await requireReadTable(pool, table)
  const { rows } = await pool.query<Row>(`select * from ${table} where ${key} = $1::text`, [id])
  return { shared: rows.map(streamOf) }
}

/** A removed endpoint has no row. Its account follows from its deliveries; without any, all accounts are searched. */
const ofEndpoint: Find = async (pool, id) => {
  await requireReadTable(pool, 'read.webhook_endpoints')
  const { rows } = await pool.query<{ account_id: AccountId }>(
    `select account_id from read.webhook_endpoints where endpoint_id = $1::text
     union select account_id from work.webhook_deliveries where endpoint_id = $1::text`,
    [id],
  )
  if (rows.length > 0) return { shared: rows.map((row) => webhooksStream(row.account_id)) }
  const allAccounts = await pool.query<{ account_id: AccountId }>('select account_id from read.accounts')
  return { shared: allAccounts.rows.map((row) => webhooksStream(row.account_id)) }
}

/** The events that set and removed a gateway, and the entries of its account in the books. */
const ofGateway: Find = async (pool, id) => {
  const { rows } = await pool.query<{ account_id: AccountId }>(
    'select account_id from read.journal_resellers order by account_id',
  )
  const positions = await entriesBy(
    pool,
    `exists (select from read.journal_postings p join read.journal_accounts a on a.number = p.account_number
             where p.position = e.position and a.account = $1::text)`,
    gatewayAccount(id),
  )
  return { shared: rows.map((row) => termsStream(row.account_id)), positions }
}

const ofDeposit: Find = async (pool, id) => ({
  own: [depositStream(id)],
  positions: await entriesBy(pool, 'e.deposit_id = $1::text', id),
})

const ofOrder: Find = async (pool, id) => ({
  own: [orderStream(id as OrderId)],
  positions: await entriesBy(pool, 'e.order_id = $1::text', id),
})

/** The events of a refund are in the stream of its order. Its entries have the refund's id as their reference. */
const ofRefund: Find = async (pool, id) => {
  const { rows } = await pool.query<{ order_id: OrderId }>(
    'select distinct order_id from read.journal_entries where reference = $1::text and order_id is not null',
    [id],
  )
  return {
    shared: rows.map((row) => orderStream(row.order_id)),
    positions: await entriesBy(pool, 'e.reference = $1::text', id),
  }
}

/** The holds of a scrape have ids of their own, one per attempt, which derive from its id. */
const ofScrape: Find = async (pool, id) => {
  const holds = Array.from({ length: maxAttempts }, (_, n) => holdIdOf(id as ScrapeId, n + 1))
  const { rows } = await pool.query<{ position: number }>(
    'select position from read.journal_entries where reference = any ($1::text[]) order by position',
    [holds],
  )
  return { own: [scrapeStream(id as ScrapeId)], positions: rows.map(({ position }) => position) }
}

const findByPrefix: Readonly<Record<ResourcePrefix, Find>> = {
  ord: ofOrder,
  dep: ofDeposit,
  sub: async (_pool, id) => ({ own: [subscriptionStream(id as SubscriptionId)] }),
  pln: async (_pool, id) => ({ own: [planStream(id as PlanId)] }),
  prx: (pool, id) =>
    streamsOfRow<{ product_id: string; country: string }>(
      pool,
      { table: 'read.proxies', key: 'proxy_id', id },
      (row) => stockStream(row.product_id, row.country),
    ),
  ref: ofRefund,
  scr: ofScrape,
  crd: ofGateway,
  whs: ofEndpoint,
  key: (pool, id) =>
    streamsOfRow<{ account_id: AccountId }>(pool, { table: 'read.keys', key: 'key_id', id }, (row) =>
      accountStream(row.account_id),
    ),
  ntc: async (_pool, id) => ({ own: [noticeStream(id as NoticeId)] }),
}

/**
 * Finds the events about a resource by its id; empty streams and no positions if nothing names it.
 * @throws CliRefusal overloaded: the read tables with its stream do not exist yet
 */
export const findTrail = async (pool: pg.Pool, id: string): Promise<Trail> => {
  const prefix = resourcePrefix(id)
  return { own: [], shared: [], positions: [], ...(prefix && (await findByPrefix[prefix](pool, id))) }
}
