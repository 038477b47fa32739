import type pg from 'pg'
import type { Logger } from 'pino'
import { hot } from '../../../projections/groups.ts'
import { type Catalog, createCatalog } from '../../domain/catalog/catalog.ts'
import { type CatalogFile, parseCatalog } from '../../domain/catalog/catalog-file.ts'
import type { Problem } from '../../domain/catalog/catalog-rules.ts'
import { decideImport, decideState, type Imported } from '../../domain/catalog/decide.ts'
import type { CatalogEvent } from '../../domain/catalog/events.ts'
import { catalogRef, emptyCatalog, evolveCatalog } from '../../domain/catalog/fold.ts'
import type { CatalogState, Product, ProductState } from '../../domain/catalog/product.ts'
import type { OrderEvent } from '../../domain/orders/events.ts'
import { decided, refused } from '../../kernel/decider.ts'
import type { Cause, RecordedEvent } from '../../kernel/event.ts'
import { catalogStream } from '../../kernel/streams.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import { handle, type Result, readState } from '../../platform/commands/command.ts'
import { decode, readLog } from '../../platform/eventstore/codec.ts'
import type { EventLog, StoredEvent } from '../../platform/eventstore/port.ts'
import { readCheckpoint } from '../../platform/projections/checkpoint.ts'
import { createLiveRows, type LiveRows } from '../../platform/projections/live.ts'
import type { Watch } from '../../platform/projections/progress.ts'

/** Returns the products that were ever ordered. */
export type Ordered = (productIds: readonly string[]) => Promise<ReadonlySet<string>>

/** A refusal lists every problem that was found. Nothing is written then. */
export type CatalogResult<Value> = Result<readonly Problem[], Value>

export type CatalogService = {
  /**
   * Checks a whole catalogue file and replaces the catalogue with it. States that were changed since are set to those
   * of the file. `ordered` checks the products that the file leaves out; without it no product may be left out.
   */
  import(text: string, cause: Cause, ordered?: Ordered): Promise<CatalogResult<Imported>>
  /** Checks a file as `import` does, and writes nothing. `current`: the file equals the catalogue. */
  check(
    text: string,
    cause: Cause,
    ordered?: Ordered,
  ): Promise<CatalogResult<Imported & { readonly current: boolean }>>
  /** The catalogue in the log, independent of the read models. */
  read(cause: Cause): Promise<Catalog>
  /** Changes a product's state. `productId` and `successorId` are current ids, not former ones. */
  setState(
    change: { readonly productId: string; readonly state: ProductState; readonly successorId: string | null },
    cause: Cause,
  ): Promise<CatalogResult<{ readonly product: Product }>>
}

/** Writes the catalogue: events of the `catalog` stream, decided by the command runner. */
export const createCatalogService = (runner: CommandRunner): CatalogService => {
  const readCatalogState = (cause: Cause) => readState(runner, { ...cause, name: 'read-catalog' }, catalogRef)

  /** The products that a file leaves out and that were never ordered. */
  const findNeverOrdered = async (file: CatalogFile, cause: Cause, ordered?: Ordered) => {
    const fileIds = new Set(file.products.map(({ id }) => id))
    const { products } = await readCatalogState(cause)
    const omittedIds = products.map(({ id }) => id).filter((id) => !fileIds.has(id))
    if (omittedIds.length === 0 || ordered === undefined) return new Set<string>()
    const orderedIds = await ordered(omittedIds)
    return new Set(omittedIds.filter((id) => !orderedIds.has(id)))
  }
  return {
    import: async (text, cause, ordered) => {
      const parsed = parseCatalog(text)
      if (!parsed.ok) return refused(parsed.problems)
      const neverOrderedIds = await findNeverOrdered(parsed.file, cause, ordered)
      return handle(runner, { ...cause, name: 'import-catalog' }, catalogRef, (state, { nowMs }) =>
        decideImport(state, parsed.file, nowMs, neverOrderedIds),
      )
    },
    check: async (text, cause, ordered) => {
      const parsed = parseCatalog(text)
      if (!parsed.ok) return refused(parsed.problems)
      const neverOrderedIds = await findNeverOrdered(parsed.file, cause, ordered)
      return handle(runner, { ...cause, name: 'check-catalog' }, catalogRef, (state, { nowMs }) => {
        const decision = decideImport(state, parsed.file, nowMs, neverOrderedIds)
        if (decision.outcome === 'refused') return decision
        const { events, digest, products } = decision
        return { ...decided(), digest, products, current: events.length === 0 }
      })
    },
    read: async (cause) => createCatalog(await readCatalogState(cause)),
    setState: (change, cause) =>
      handle(runner, { ...cause, name: 'set-product-state' }, catalogRef, (state, { nowMs }) =>
        decideState(state, change, nowMs),
      ),
  }
}

/**
 * The products with a plan, rentals or an uncompleted order. Every fulfilled order has a plan or rentals; others are
 * few.
 */
const orderedInTables = async (pool: pg.Pool, productIds: readonly string[]): Promise<readonly string[]> => {
  const { rows } = await pool.query<{ id: string }>(
    `select id from unnest($1::text[]) as id
      where exists (select from read.plans p where p.product_id = id)
         or exists (select from read.proxies p where p.product_id = id)
         or exists (select from read.orders o
                     where o.status <> 'completed' and o.details::jsonb ->> 'productId' = id)`,
    [productIds],
  )
  return rows.map(({ id }) => id)
}

const productOf = ({ type, data }: OrderEvent): string | null =>
  type === 'OrderCompleted' || type === 'OrderPlaced' || type === 'OrderAwaitingPayment'
    ? data.order.productId
    : null

/**
 * Which of these products were ever ordered. Reads the read tables, and the log after the tables' position. Without
 * tables it reads the whole log.
 */
export const orderedProducts = async (
  { pool, log }: { readonly pool: pg.Pool; readonly log: EventLog },
  productIds: readonly string[],
): Promise<ReadonlySet<string>> => {
  const { rows } = await pool.query<{ made: boolean }>(
    `select bool_and(to_regclass(name) is not null) as made
       from unnest(array['read.plans', 'read.proxies', 'read.orders']) as name`,
  )
  const checkpoint = rows[0]?.made === true ? await readCheckpoint(pool, hot.name) : null
  const ordered = new Set(checkpoint === null ? [] : await orderedInTables(pool, productIds))
  const requestedIds = new Set(productIds)
  const head = await log.head()
  for await (const page of readLog(log, head, undefined, checkpoint?.position ?? 0))
    for (const stored of page) {
      if (!stored.stream.startsWith('order-')) continue
      const productId = productOf(decode(stored) as RecordedEvent<OrderEvent>)
      if (productId !== null && requestedIds.has(productId)) ordered.add(productId)
    }
  return ordered
}

/** The catalogue in memory, so that requests need no query. */
export type LiveCatalog = LiveRows<Catalog>

/**
 * Caches the catalogue from the events of its stream, because prices depend on it: anyone with write access to the
 * database can change `read.catalog`, which only signals that there are new events.
 */
export const createLiveCatalog = (dependencies: {
  readonly log: Pick<EventLog, 'lastOf' | 'readStreams'>
  /** Of the table `catalog`. */
  readonly watch: Watch
  readonly logger: Logger
}): LiveCatalog => {
  const { log, watch, logger } = dependencies
  let cachedState: { readonly state: CatalogState; readonly revision: number } = {
    state: emptyCatalog,
    revision: -1,
  }

  const read = async (from: number, events: number): Promise<readonly StoredEvent[]> =>
    (await log.readStreams([{ stream: catalogStream, from }], events)).get(catalogStream) ?? []

  /**
   * The events after the cached revision, or from the last import on. An import replaces the whole catalogue and may be
   * as large as an event can be. The stream is therefore read backwards from its end.
   */
  const newEvents = async (lastRevision: number): Promise<readonly StoredEvent[]> => {
    let events: readonly StoredEvent[] = []
    for (let [through, size] = [lastRevision, 1]; through > cachedState.revision; size *= 2) {
      const from = Math.max(cachedState.revision + 1, through - size + 1)
      events = [...(await read(from, through - from + 1)), ...events]
      const imported = events.findLastIndex(({ type }) => type === 'CatalogImported')
      if (imported !== -1) return events.slice(imported)
      through = from - 1
    }
    return events
  }

  const load = async (former: Catalog | null): Promise<Catalog> => {
    const last = await log.lastOf(catalogStream)
    if (last === null || last.revision <= cachedState.revision)
      return former ?? createCatalog(cachedState.state)
    const state = (await newEvents(last.revision)).reduce(
      (before, stored) => evolveCatalog(before, decode(stored) as RecordedEvent<CatalogEvent>),
      cachedState.state,
    )
    const catalog = createCatalog(state)
    cachedState = { state, revision: last.revision }
    return catalog
  }

  return createLiveRows({ name: 'catalogue', watch, load, logger })
}
