import type pg from 'pg'
import type { Logger } from 'pino'
import { hot } from '../../../projections/groups.ts'
import type { ResellerTermsRow } from '../../../projections/resellers.ts'
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

/** All resellers' terms in memory, so that quotes and orders do not wait for a query. */
export type LiveTerms = Pick<LiveRows<unknown>, 'refresh' | 'start' | 'stop'> & {
  /** A reseller's cost and retail terms for a product; null if the key is not a reseller's. */
  readonly termsOf: TermsOf
  /** @throws log errors, for terms that were not read before */
  readonly refreshTerms: RefreshTerms
  /** A reseller's settings, as of the last load. */
  settingsOf(reseller: AccountId): Terms
}

type ResellerPrices = {
  readonly settings: Terms
  readonly byProduct: ReadonlyMap<string, ResellerTerms>
  readonly other: ResellerTerms
}

const pricesOf = ({ terms, revision }: Pick<ResellerTermsRow, 'terms' | 'revision'>): ResellerPrices => {
  const { discountBp, markupMillionths, priceLimits, sellable } = terms
  const sellableIds = sellable && new Set(sellable)
  const of = (productId: string | null, retail: ResellerTerms['retail']): ResellerTerms => ({
    discountBp,
    markupMillionths,
    priceLimits,
    retail,
    sellable: sellableIds === null || (productId !== null && sellableIds.has(productId)),
    revision,
  })
  const prices = Map.groupBy(terms.retail, ({ productId }) => productId)
  const productIds = new Set([...(sellableIds ?? []), ...prices.keys()])
  const retailOf = (productId: string) =>
    new Map(
      prices
        .get(productId)
        ?.map(({ country, periodDays, tiers, belowCost }) => [
          retailKey(country === null || periodDays === null ? null : { country, periodDays }),
          { tiers, belowCost },
        ]),
    )
  return {
    settings: terms,
    byProduct: new Map([...productIds].map((productId) => [productId, of(productId, retailOf(productId))])),
    other: of(null, new Map()),
  }
}

/**
 * Caches the terms of all resellers, folded from their streams: prices depend on them, and SQL can change
 * `read.reseller_terms`. The table only lists the resellers whose terms are read for displayed prices. Decisions that
 * depend on a reseller's terms call `refreshTerms` first, which needs no row of the table.
 */
export const createLiveTerms = (dependencies: {
  readonly pool: pg.Pool
  readonly termsOf: LogStates<Terms>
  /** On the table `reseller_terms`. */
  readonly watch: Watch
  readonly logger: Logger
}): LiveTerms => {
  const { pool, termsOf, watch, logger } = dependencies
  const resellers = new Map<string, ResellerPrices>()
  let seen = 0
  let table = 0

  const hold = async (reseller: string): Promise<void> => {
    const { state, revision } = await termsOf(reseller)
    const currentRevision = resellers.get(reseller)?.other.revision ?? -1
    if (revision > currentRevision) resellers.set(reseller, pricesOf({ terms: state, revision }))
  }

  // The rows of a stream change in order, and positions of different streams appear in the tables in order. A rebuilt
  // table is read from the start, because the former one may have been wrong. The table's id decides where to begin, so
  // that the index on positions is used: most changes concern one reseller.
  const load = async (): Promise<void> => {
    const { rows } = await pool.query<
      Pick<ResellerTermsRow, 'resellerId' | 'position'> & { readonly table: number }
    >({
      name: 'reseller-terms-since',
      text: `select reseller_id as "resellerId", position, tableoid::bigint as table from read.reseller_terms
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
    await Promise.all(rows.map(({ resellerId: reseller }) => hold(reseller)))
    seen = rows.at(-1)?.position ?? seen
  }

  return {
    termsOf: (caller, product) => {
      if (!caller.reseller) return null
      const resellerPrices = resellers.get(caller.accountId)
      return resellerPrices === undefined
        ? defaultResellerTerms
        : (resellerPrices.byProduct.get(product.id) ?? resellerPrices.other)
    },
    refreshTerms: async ({ accountId, reseller }) => {
      if (reseller) await hold(accountId)
    },
    settingsOf: (reseller) => resellers.get(reseller)?.settings ?? emptyTerms,
    ...createLiveRows({ name: 'terms of resellers', watch, load, logger }),
  }
}

/** The inputs of every quote in memory: catalogue and resellers' terms. */
export type LivePrices = {
  readonly catalog: LiveCatalog
  readonly terms: LiveTerms
  /**
   * Loads both once their tables are built, which takes a replay of the log at the first start of a version. Resolves
   * when both are loaded, or when stopped before.
   */
  start(stopping: AbortSignal): Promise<void>
  /** Resolves when both are at least as new as the read models at the time of the call. */
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
    // The terms come first. While there is no catalogue, no price is quoted without them.
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
