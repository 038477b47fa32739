import type pg from 'pg'
import type { Logger } from 'pino'
import { hot } from '../../../projections/groups.ts'
import type { ResellerTermsRow } from '../../../projections/reseller-terms.ts'
import {
  defaultResellerTerms,
  type RefreshTerms,
  type ResellerTerms,
  retailKey,
  type TermsOf,
} from '../../domain/catalog/pricing.ts'
import { emptyTerms, type Terms } from '../../domain/resellers/fold.ts'
import type { AccountId } from '../../kernel/ids.ts'
import type { LogStates } from '../../platform/commands/log-states.ts'
import { type Core, type Projecting, waitForReadTables } from '../../platform/feature/core.ts'
import { createLiveRows, type LiveRows } from '../../platform/projections/live.ts'
import type { Watch } from '../../platform/projections/progress.ts'
import { createLiveCatalog, type LiveCatalog } from '../catalog/index.ts'

/** All resellers' terms in memory: neither a quote nor an order waits for a query. */
export type LiveTerms = Pick<LiveRows<unknown>, 'refresh' | 'start' | 'stop'> & {
  /** What a reseller pays and asks for a product; null for a key that is no reseller's. */
  readonly termsOf: TermsOf
  /** @throws what the log throws, of terms that were never read here */
  readonly refreshTerms: RefreshTerms
  /** A reseller's settings, as of the last load. */
  settingsOf(reseller: AccountId): Terms
}

type Kept = {
  readonly settings: Terms
  readonly byProduct: ReadonlyMap<string, ResellerTerms>
  readonly other: ResellerTerms
}

const keptOf = ({ terms, revision }: Pick<ResellerTermsRow, 'terms' | 'revision'>): Kept => {
  const { discountBp, markupMillionths, sellable } = terms
  const sold = sellable && new Set(sellable)
  const of = (productId: string | null, retail: ResellerTerms['retail']): ResellerTerms => ({
    discountBp,
    markupMillionths,
    retail,
    sellable: sold === null || (productId !== null && sold.has(productId)),
    revision,
  })
  const prices = Map.groupBy(terms.retail, ({ productId }) => productId)
  const named = new Set([...(sold ?? []), ...prices.keys()])
  const retailOf = (productId: string) =>
    new Map(
      prices
        .get(productId)
        ?.map(({ country, periodDays, unitPriceMicros }) => [
          retailKey(country === null || periodDays === null ? null : { country, periodDays }),
          unitPriceMicros,
        ]),
    )
  return {
    settings: terms,
    byProduct: new Map([...named].map((productId) => [productId, of(productId, retailOf(productId))])),
    other: of(null, new Map()),
  }
}

/**
 * Keeps the terms of all resellers as the events of their streams leave them, because prices are made from them, and
 * SQL can change `read.reseller_terms`. That table only lists the resellers whose terms are read for prices that are shown.
 * A decision by a reseller's terms calls `refreshTerms` first, which needs no row of that table.
 */
export const createLiveTerms = (deps: {
  readonly pool: pg.Pool
  readonly termsOf: LogStates<Terms>
  /** Of the table `reseller_terms`. */
  readonly watch: Watch
  readonly logger: Logger
}): LiveTerms => {
  const { pool, termsOf, watch, logger } = deps
  const resellers = new Map<string, Kept>()
  let seen = 0
  let table = 0

  const hold = async (reseller: string): Promise<void> => {
    const { state, revision } = await termsOf(reseller)
    const held = resellers.get(reseller)?.other.revision ?? -1
    if (revision > held) resellers.set(reseller, keptOf({ terms: state, revision }))
  }

  // The rows of one stream change one after another, and positions of different streams appear in the tables in order.
  // A table that was made anew is read again from the start: what stood in the former one may have been wrong. Which one it
  // is says where to begin, so that the index on positions serves: most changes are of one reseller.
  const load = async (): Promise<void> => {
    const { rows } = await pool.query<
      Pick<ResellerTermsRow, 'reseller_id' | 'position'> & { readonly table: number }
    >({
      name: 'reseller-terms-since',
      text: `select reseller_id, position, tableoid::bigint as table from read.reseller_terms
             where position > case when to_regclass('read.reseller_terms')::oid::bigint = $2::bigint
                                   then $1::bigint else -1 end
             order by position`,
      values: [seen, table],
    })
    const [first] = rows
    if (first !== undefined && first.table !== table) {
      resellers.clear()
      table = first.table
    }
    await Promise.all(rows.map(({ reseller_id: reseller }) => hold(reseller)))
    seen = rows.at(-1)?.position ?? seen
  }

  return {
    termsOf: (caller, product) => {
      if (!caller.reseller) return null
      const kept = resellers.get(caller.accountId)
      return kept === undefined ? defaultResellerTerms : (kept.byProduct.get(product.id) ?? kept.other)
    },
    refreshTerms: async ({ accountId, reseller }) => {
      if (reseller) await hold(accountId)
    },
    settingsOf: (reseller) => resellers.get(reseller)?.settings ?? emptyTerms,
    ...createLiveRows({ name: 'terms of resellers', watch, load, logger }),
  }
}

/** What every quote is made of, held in memory: catalogue and resellers' terms. */
export type LivePrices = {
  readonly catalog: LiveCatalog
  readonly terms: LiveTerms
  /**
   * Holds both once their tables are made, which takes a replay of the log at the first start of a version; resolves
   * when they are held, or when it was stopped before.
   */
  start(stopping: AbortSignal): Promise<void>
  /** Resolves once both are as the read models were when it was called. */
  refresh(): Promise<void>
  stop(): Promise<void>
}

export const createLivePrices = (
  { pool, log, logger }: Pick<Core, 'pool' | 'log' | 'logger'>,
  { progress }: Pick<Projecting, 'progress'>,
  termsOf: LogStates<Terms>,
): LivePrices => {
  const of = (table: string) => ({ logger, watch: progress.watch(hot.name, [table]) })
  const catalog = createLiveCatalog({ log, ...of('catalog') })
  const terms = createLiveTerms({ pool, termsOf, ...of('reseller_terms') })
  return {
    catalog,
    terms,
    // The terms come first: while there is no catalogue, nobody is quoted a price without them.
    start: async (stopping) => {
      if (!(await waitForReadTables({ progress }, hot.name, stopping))) return
      await terms.start()
      await catalog.start()
    },
    refresh: async () => {
      await terms.refresh()
      await catalog.refresh()
    },
    stop: async () => {
      await catalog.stop()
      await terms.stop()
    },
  }
}
