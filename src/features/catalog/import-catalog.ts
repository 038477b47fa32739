import type pg from 'pg'
import { hot } from '../../../projections/groups.ts'
import { type Catalog, createCatalog } from '../../domain/catalog/catalog.ts'
import { type CatalogFile, parseCatalog } from '../../domain/catalog/catalog-file.ts'
import type { Problem } from '../../domain/catalog/catalog-rules.ts'
import { decideImport, decideState, type Imported } from '../../domain/catalog/decide.ts'
import { catalogRef } from '../../domain/catalog/fold.ts'
import type { Product, ProductState } from '../../domain/catalog/product.ts'
import type { OrderEvent } from '../../domain/orders/events.ts'
import { decided, refused } from '../../kernel/decider.ts'
import type { Cause, RecordedEvent } from '../../kernel/event.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import { handle, type Result, readState } from '../../platform/commands/handle.ts'
import { decode, readLog } from '../../platform/eventstore/codec.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { readCheckpoint } from '../../platform/projections/checkpoint.ts'

/** Which of these products were ever ordered. */
export type Ordered = (productIds: readonly string[]) => Promise<ReadonlySet<string>>

/** Refused with every problem that was found; nothing is written then. */
export type CatalogResult<Made> = Result<readonly Problem[], Made>

export type CatalogService = {
  /**
   * Checks the text of a catalogue file as a whole and makes it the catalogue. A state that was changed since is set as
   * the file says. `ordered` is asked of the products that the file leaves out; without it none may go.
   */
  import(text: string, cause: Cause, ordered?: Ordered): Promise<CatalogResult<Imported>>
  /** Answers what an import would, and writes nothing. `current`: this is the catalogue already. */
  check(
    text: string,
    cause: Cause,
    ordered?: Ordered,
  ): Promise<CatalogResult<Imported & { readonly current: boolean }>>
  /** The catalogue as the log has it now, whatever the read models have folded. */
  read(cause: Cause): Promise<Catalog>
  /** Changes one product's state. `productId` and `successorId` are ids, not old ids. */
  setState(
    change: { readonly productId: string; readonly state: ProductState; readonly successorId: string | null },
    cause: Cause,
  ): Promise<CatalogResult<{ readonly product: Product }>>
}

/** The catalogue's writes: events on the `catalog` stream, decided by the command runner. */
export const createCatalogService = (runner: CommandRunner): CatalogService => {
  const stateNow = (cause: Cause) => readState(runner, { ...cause, name: 'read-catalog' }, catalogRef)

  /** The products that a file leaves out and that nobody ever ordered. */
  const neverOrdered = async (file: CatalogFile, cause: Cause, ordered?: Ordered) => {
    const named = new Set(file.products.map(({ id }) => id))
    const { products } = await stateNow(cause)
    const left = products.map(({ id }) => id).filter((id) => !named.has(id))
    if (left.length === 0 || ordered === undefined) return new Set<string>()
    const found = await ordered(left)
    return new Set(left.filter((id) => !found.has(id)))
  }
  return {
    import: async (text, cause, ordered) => {
      const parsed = parseCatalog(text)
      if (!parsed.ok) return refused(parsed.problems)
      const never = await neverOrdered(parsed.file, cause, ordered)
      return handle(runner, { ...cause, name: 'import-catalog' }, catalogRef, (state, { nowMs }) =>
        decideImport(state, parsed.file, nowMs, never),
      )
    },
    check: async (text, cause, ordered) => {
      const parsed = parseCatalog(text)
      if (!parsed.ok) return refused(parsed.problems)
      const never = await neverOrdered(parsed.file, cause, ordered)
      return handle(runner, { ...cause, name: 'check-catalog' }, catalogRef, (state, { nowMs }) => {
        const decision = decideImport(state, parsed.file, nowMs, never)
        if (decision.outcome === 'refused') return decision
        const { events, digest, products } = decision
        return { ...decided(), digest, products, current: events.length === 0 }
      })
    },
    read: async (cause) => createCatalog(await stateNow(cause)),
    setState: (change, cause) =>
      handle(runner, { ...cause, name: 'set-product-state' }, catalogRef, (state, { nowMs }) =>
        decideState(state, change, nowMs),
      ),
  }
}

/** Every order that was fulfilled left a plan or rentals; the others are few. */
const inTables = async (pool: pg.Pool, productIds: readonly string[]): Promise<readonly string[]> => {
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
 * Which of these products were ever ordered: from the read tables, and from the log where the tables do not reach yet.
 * Without tables all of the log is read.
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
  const ordered = new Set(checkpoint === null ? [] : await inTables(pool, productIds))
  const wanted = new Set(productIds)
  const head = await log.head()
  for await (const page of readLog(log, head, undefined, checkpoint?.position ?? 0))
    for (const stored of page) {
      if (!stored.stream.startsWith('order-')) continue
      const productId = productOf(decode(stored) as RecordedEvent<OrderEvent>)
      if (productId !== null && wanted.has(productId)) ordered.add(productId)
    }
  return ordered
}
