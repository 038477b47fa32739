import type pg from 'pg'
import type { BatchTally, ScrapeBatchAccepted } from '../../domain/scrapers/batches.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { AccountId, KeyId, ScrapeBatchId } from '../../kernel/ids.ts'
import { canonicalJson } from '../../kernel/json-text.ts'
import { inTransaction } from '../../platform/postgres/transaction.ts'
import type { Keys } from '../../platform/vault/keys.ts'
import { createRowSigner, type RowFields } from '../../platform/vault/seal.ts'
import { signOldRows } from '../../platform/vault/sign-old-rows.ts'
import type { QueueTable } from '../../platform/work/queue-table.ts'
import type { CacheDays } from './provider-port.ts'
import { resultTtlMs } from './stored-results.ts'

/**
 * The calls of all batches. The queue owner is the account, so a batch does not wait for the batches of other accounts.
 */
export const batchQueue: QueueTable = {
  name: 'scrape-batches',
  table: 'work.scrape_batch_items',
  key: ['batch_id', 'n'],
  owner: 'account_id',
  longestWaitMs: 3_600_000,
  columns: ['input', 'signature'],
}

export type BatchItem = {
  readonly batch_id: ScrapeBatchId
  readonly n: string
  readonly account_id: AccountId
  readonly input: Readonly<Record<string, unknown>>
  readonly signature: Buffer | null
  readonly attempts: number
}

/** The event data of an accepted batch. */
export const acceptedOf = (batch: BatchRow): ScrapeBatchAccepted['data'] => ({
  batchId: batch.batch_id,
  accountId: batch.account_id,
  keyId: batch.key_id,
  requestId: batch.request_id,
  platform: batch.platform,
  operation: batch.operation,
  fingerprint: batch.fingerprint,
  inputs: batch.inputs,
})

/** The result of a batch call. `failed` covers everything without a result; `canceled` was not called. */
export type ItemOutcome = 'found' | 'empty' | 'not_found' | 'restricted' | 'failed' | 'canceled'

export type BatchRow = {
  readonly batch_id: ScrapeBatchId
  readonly account_id: AccountId
  readonly key_id: KeyId
  readonly request_id: string
  readonly platform: string
  readonly operation: string
  readonly fingerprint: string
  readonly inputs: number
  /** For each input the number of the first equal one, from 1. Only that one is called. */
  readonly calls: readonly number[]
  /** The accepted age of earlier answers at `created_at`; null: all calls are made. */
  readonly max_age_days: CacheDays | null
  readonly created_at: string
  readonly finished_at: string | null
  /** Calls that have not started by this time are not made. */
  readonly canceled_at: string | null
  readonly signature: Buffer | null
}

type NewBatch = Omit<BatchRow, 'finished_at' | 'canceled_at' | 'signature'>

/**
 * Signs batches and their calls with keys derived from the master key, because a call spends its account's money. Rows
 * that were written with SQL only are not called.
 */
const createBatchSigner = ({ master }: Pick<Keys, 'master'>) => {
  const [batches, calls] = [
    createRowSigner(master, 'scrape batch v1'),
    createRowSigner(master, 'scrape call v1'),
  ]
  const fieldsOf = (batch: Omit<NewBatch, 'created_at'>): RowFields => [
    batch.batch_id,
    batch.account_id,
    batch.key_id,
    batch.request_id,
    batch.platform,
    batch.operation,
    batch.fingerprint,
    String(batch.inputs),
    batch.calls.join(),
    String(batch.max_age_days),
  ]
  const fieldsOfCall = ({ batch_id, n, input }: Pick<BatchItem, 'batch_id' | 'n' | 'input'>): RowFields => [
    batch_id,
    String(n),
    canonicalJson(input),
  ]
  return {
    sign: (batch: NewBatch) => batches.sign(fieldsOf(batch)),
    signCall: (call: Pick<BatchItem, 'batch_id' | 'n' | 'input'>) => calls.sign(fieldsOfCall(call)),
    isSigned: (batch: BatchRow) => batches.isSigned(fieldsOf(batch), batch.signature),
    isCallSigned: (call: BatchItem) => calls.isSigned(fieldsOfCall(call), call.signature),
  }
}

/** A list of columns instead of `*`: a later version may add columns while this one runs. */
const batchColumns =
  'batch_id, account_id, key_id, request_id, platform, operation, fingerprint, inputs, calls, max_age_days, created_at, finished_at, canceled_at, signature'

const ownColumns = batchColumns.replaceAll(/\w+/g, 'b.$&')

/** For each input `c.n` of a batch `b` the item `i` of its call `c.call`. */
const callsOfBatch = `
  cross join lateral (select call, n::integer from unnest(b.calls) with ordinality u (call, n)) c
  join (select batch_id, n, status, outcome, result, charged_micros from work.scrape_batch_items) i
    on i.batch_id = b.batch_id and i.n = c.call::text`

/** Equal inputs are charged once. */
const chargedMicros = 'case when c.n = c.call then i.charged_micros else 0 end'

const adoptionBatchSize = 200

/** Signs the unsigned batches and calls of older releases. */
export const adoptScrapeBatches = async (pool: pg.Pool, keys: Pick<Keys, 'master'>): Promise<void> => {
  const { sign, signCall } = createBatchSigner(keys)
  await signOldRows<BatchRow>(
    pool,
    `select ${batchColumns} from work.scrape_batches
      where signature is null and batch_id > $1::text order by batch_id`,
    ({ batch_id }) => batch_id,
    (rows) =>
      pool.query(
        `update work.scrape_batches b set signature = s.signature
           from unnest($1::text[], $2::bytea[]) as s (batch_id, signature) where b.batch_id = s.batch_id`,
        [rows.map(({ batch_id }) => batch_id), rows.map(sign)],
      ),
  )
  for (;;) {
    const { rows } = await pool.query<Pick<BatchItem, 'batch_id' | 'n' | 'input'>>(
      `select batch_id, n, input from work.scrape_batch_items
        where signature is null and status = 'pending' limit ${adoptionBatchSize}`,
    )
    await pool.query(
      `update work.scrape_batch_items i set signature = s.signature
         from unnest($1::text[], $2::text[], $3::bytea[]) as s (batch_id, n, signature)
        where i.batch_id = s.batch_id and i.n = s.n`,
      [rows.map(({ batch_id }) => batch_id), rows.map(({ n }) => n), rows.map(signCall)],
    )
    if (rows.length < adoptionBatchSize) return
  }
}

export type ShownItem = {
  readonly n: number
  /** The number of the call that it shares with earlier equal inputs; `n` for the first of them. */
  readonly call: number
  readonly outcome: ItemOutcome | null
  /** The reason for a missing result; null for a result and while the call runs. */
  readonly problem: string | null
  /** 0 for an input whose call belongs to an earlier one. */
  readonly charged_micros: number
}

/** A batch with the number of finished calls and their cost. */
export type CountedBatch = BatchRow & { readonly done: number; readonly charged_micros: number }

/** A batch whose calls are all finished, and their results. */
export type EndedBatch = {
  readonly batch: BatchRow
  readonly tally: BatchTally & { readonly chargedMicros: number }
}

export type BatchItems = {
  /** Stores a batch and its calls, without repeated inputs, unless the batch exists. Returns the stored batch. */
  store(batch: NewBatch, inputs: readonly Readonly<Record<string, unknown>>[]): Promise<BatchRow>
  /** Whether the service wrote this batch, and this call of it; without a call, the batch only. */
  isGenuine(batch: BatchRow, call?: BatchItem): boolean
  /** Null: the service wrote none, or it finished more than a day ago. */
  batch(batchId: ScrapeBatchId): Promise<BatchRow | null>
  list(batchId: ScrapeBatchId): Promise<readonly ShownItem[]>
  /** Readable batches of an account, newest first, after a given batch; null: from the newest on. */
  ofAccount(
    accountId: AccountId,
    page: { readonly after: { readonly at: string; readonly id: string } | null; readonly limit: number },
  ): Promise<readonly CountedBatch[]>
  /** The same as a page of the API. */
  page(
    accountId: AccountId,
    page: { readonly limit: number; readonly offset: number },
  ): Promise<{ readonly batches: readonly CountedBatch[]; readonly total: number }>
  /** Cancels an unfinished batch. Its calls become due, and calls that have not started end without being made. */
  cancel(batchId: ScrapeBatchId): Promise<void>
  /** Stores the result of a call before the call leaves the queue. */
  note(item: Pick<BatchItem, 'batch_id' | 'n'>, outcome: ItemOutcome, chargedMicros: number): Promise<void>
  /** Unfinished batches whose calls are all finished, with their results. */
  ended(limit: number): Promise<readonly EndedBatch[]>
  finished(batchIds: readonly ScrapeBatchId[]): Promise<void>
  /** Erases batches that finished more than a day ago. */
  forget(): Promise<void>
}

const cleanupBatchSize = 100

export const createBatchItems = ({
  pool,
  clock,
  keys,
}: {
  readonly pool: pg.Pool
  readonly clock: Clock
  readonly keys: Pick<Keys, 'master'>
}): BatchItems => {
  const { sign, signCall, isSigned, isCallSigned } = createBatchSigner(keys)
  const batch: BatchItems['batch'] = async (batchId) => {
    const { rows } = await pool.query<BatchRow>({
      name: 'scrape-batch',
      text: `select ${batchColumns} from work.scrape_batches
              where batch_id = $1::text and (finished_at is null or finished_at > $2::timestamptz)`,
      values: [batchId, isoTime(clock() - resultTtlMs)],
    })
    return rows.find(isSigned) ?? null
  }
  return {
    batch,

    isGenuine: (storedBatch, call) =>
      isSigned(storedBatch) &&
      (call === undefined || (call.account_id === storedBatch.account_id && isCallSigned(call))),

    store: async (newBatch, inputs) => {
      const { created_at: now, calls } = newBatch
      const firstInputs = inputs
        .map((input, at) => ({ batch_id: newBatch.batch_id, n: String(at + 1), input }))
        .filter((_, at) => calls[at] === at + 1)
      await inTransaction(pool, async (client) => {
        const { rowCount } = await client.query({
          name: 'scrape-batch-keep',
          text: `insert into work.scrape_batches
                   (batch_id, account_id, key_id, request_id, platform, operation, fingerprint, inputs, created_at, signature, calls, max_age_days)
                 values ($1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::integer, $9::timestamptz, $10::bytea, $11::integer[], $12::integer)
                 on conflict do nothing`,
          values: [
            newBatch.batch_id,
            newBatch.account_id,
            newBatch.key_id,
            newBatch.request_id,
            newBatch.platform,
            newBatch.operation,
            newBatch.fingerprint,
            newBatch.inputs,
            now,
            sign(newBatch),
            calls,
            newBatch.max_age_days,
          ],
        })
        if (rowCount === 0) return
        await client.query({
          name: 'scrape-batch-keep-items',
          text: `insert into work.scrape_batch_items (batch_id, n, account_id, input, due_at, signature)
                 select $1::text, n, $2::text, input, $4::timestamptz, signature
                   from unnest($3::text[], $5::jsonb[], $6::bytea[]) as given (n, input, signature)`,
          values: [
            newBatch.batch_id,
            newBatch.account_id,
            firstInputs.map(({ n }) => n),
            now,
            firstInputs.map(({ input }) => JSON.stringify(input)),
            firstInputs.map(signCall),
          ],
        })
      })
      const storedBatch = await batch(newBatch.batch_id)
      if (storedBatch === null) throw new Error(`batch ${newBatch.batch_id} was stored and is missing`)
      return storedBatch
    },

    list: async (batchId) => {
      const { rows } = await pool.query<{
        n: number
        call: number
        outcome: ItemOutcome | null
        result: string | null
        charged_micros: number
      }>({
        name: 'scrape-batch-items',
        text: `select c.n, c.call, case when i.status <> 'pending' then coalesce(i.outcome, 'failed') end as outcome,
                      case when i.status <> 'pending' then i.result end as result, ${chargedMicros} as charged_micros
                 from work.scrape_batches b ${callsOfBatch} where b.batch_id = $1::text order by 1`,
        values: [batchId],
      })
      return rows.map(({ result, ...row }) => ({ ...row, problem: row.outcome === 'failed' ? result : null }))
    },

    ofAccount: async (accountId, { after, limit }) => {
      const { rows } = await pool.query<CountedBatch>({
        name: 'scrape-batches-of-account',
        text: `select b.*, i.done, i.charged_micros from (
                 select ${batchColumns} from work.scrape_batches
                  where account_id = $1::text and (finished_at is null or finished_at > $2::timestamptz)
                    and ($3::timestamptz is null or (created_at, batch_id) < ($3::timestamptz, $4::text))
                  order by created_at desc, batch_id desc limit $5::bigint) b
               cross join lateral (
                 select count(*) filter (where i.status <> 'pending') as done,
                        coalesce(sum(${chargedMicros}), 0)::bigint as charged_micros
                   from (select b.batch_id, b.calls) b ${callsOfBatch}) i
               order by b.created_at desc, b.batch_id desc`,
        values: [accountId, isoTime(clock() - resultTtlMs), after?.at ?? null, after?.id ?? null, limit],
      })
      return rows.filter(isSigned)
    },

    page: async (accountId, { limit, offset }) => {
      const { rows } = await pool.query<CountedBatch & { total: number }>({
        name: 'scrape-batches-page',
        text: `with readable as (
                 select ${batchColumns} from work.scrape_batches
                  where account_id = $1::text and (finished_at is null or finished_at > $2::timestamptz)),
               page as (
                 select * from readable order by created_at desc, batch_id desc
                  limit $3::bigint offset $4::bigint)
               select t.total, p.*, i.done, i.charged_micros
                 from (select count(*) as total from readable) t
                 left join page p on true
                 left join lateral (
                   select count(*) filter (where i.status <> 'pending') as done,
                          coalesce(sum(${chargedMicros}), 0)::bigint as charged_micros
                     from (select p.batch_id, p.calls) b ${callsOfBatch}) i on true
                order by p.created_at desc, p.batch_id desc`,
        values: [accountId, isoTime(clock() - resultTtlMs), limit, offset],
      })
      return {
        batches: rows.filter((row) => row.batch_id !== null && isSigned(row)),
        total: rows[0]?.total ?? 0,
      }
    },

    cancel: async (batchId) => {
      const now = isoTime(clock())
      await inTransaction(pool, async (client) => {
        await client.query({
          name: 'scrape-batch-cancel',
          text: `update work.scrape_batches set canceled_at = $2::timestamptz
                  where batch_id = $1::text and finished_at is null and canceled_at is null`,
          values: [batchId, now],
        })
        await client.query({
          name: 'scrape-batch-cancel-items',
          text: `update work.scrape_batch_items set due_at = $2::timestamptz
                  where batch_id = $1::text and status = 'pending' and due_at > $2::timestamptz`,
          values: [batchId, now],
        })
      })
    },

    note: async ({ batch_id: batchId, n }, outcome, chargedMicros) => {
      await pool.query({
        name: 'scrape-batch-note',
        text: `update work.scrape_batch_items set outcome = $3::text, charged_micros = $4::bigint
                where batch_id = $1::text and n = $2::text`,
        values: [batchId, n, outcome, chargedMicros],
      })
    },

    ended: async (limit) => {
      const { rows } = await pool.query<
        BatchRow & {
          found: number
          empty: number
          not_found: number
          restricted: number
          canceled: number
          failed: number
          charged: number
        }
      >({
        name: 'scrape-batches-ended',
        text: `select ${ownColumns}, ${(['found', 'empty', 'not_found', 'restricted', 'canceled'] as const)
          .map((outcome) => `count(*) filter (where i.outcome = '${outcome}') as ${outcome}`)
          .join(', ')},
                      count(*) filter (where coalesce(i.outcome, 'failed') = 'failed') as failed,
                      sum(${chargedMicros})::bigint as charged
                 from (select ${batchColumns} from work.scrape_batches where finished_at is null) b ${callsOfBatch}
                group by ${ownColumns}
               having bool_and(i.status <> 'pending')
                limit $1::integer`,
        values: [limit],
      })
      return rows.map(({ found, empty, not_found, restricted, failed, canceled, charged, ...batch }) => ({
        batch,
        tally: {
          ...{ found, empty, notFound: not_found, restricted, failed },
          canceledCalls: canceled,
          chargedMicros: charged,
        },
      }))
    },

    finished: async (batchIds) => {
      await pool.query({
        name: 'scrape-batches-finished',
        text: `update work.scrape_batches set finished_at = $2::timestamptz
                where batch_id = any ($1::text[]) and finished_at is null`,
        values: [batchIds, isoTime(clock())],
      })
    },

    forget: async () => {
      for (;;) {
        const { rowCount } = await pool.query({
          name: 'scrape-batches-forget',
          text: `with old as (
                   select batch_id from work.scrape_batches where finished_at <= $1::timestamptz
                    order by finished_at limit ${cleanupBatchSize} for update skip locked),
                 items as (delete from work.scrape_batch_items i using old where i.batch_id = old.batch_id)
                 delete from work.scrape_batches b using old where b.batch_id = old.batch_id`,
          values: [isoTime(clock() - resultTtlMs)],
        })
        if ((rowCount ?? 0) < cleanupBatchSize) return
      }
    },
  }
}
