import type pg from 'pg'
import type { Logger } from 'pino'
import type { Watch } from '../../../projections/engine/changes.ts'
import { createLive, type Live } from '../../../projections/engine/live.ts'
import type { ResellerTermsRow } from '../../../projections/reseller-terms.ts'
import type { AccountId } from '../../kernel/ids.ts'
import type { TermsOf } from '../catalog/pricing.ts'
import { plainTerms, type ResellerTerms, retailKey } from '../catalog/pricing.ts'
import { plainSettings, type Terms } from './fold.ts'

/** All resellers' terms in memory: neither a quote nor an order waits for a query. */
export type LiveTerms = Pick<Live<unknown>, 'refresh' | 'start' | 'stop'> & {
  /** What a reseller pays and asks for a product; null for a key that is no reseller's. */
  readonly termsOf: TermsOf
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
 * Holds `read.reseller_terms`, also across a rebuild of it. Whoever serves prices refreshes it before the first one: without
 * its row, a reseller has no terms.
 */
export const createLiveTerms = (deps: {
  readonly pool: pg.Pool
  /** Of the table `reseller_terms`. */
  readonly watch: Watch
  readonly logger: Logger
}): LiveTerms => {
  const { pool, watch, logger } = deps
  const resellers = new Map<string, Kept>()
  let seen = 0
  let table = 0

  // The rows of one stream change one after another, and positions of different streams appear in the tables in order.
  // A table that was made anew is read again from the start: what stood in the former one may have been wrong. Which one it
  // is says where to begin, so that the index on positions serves: most changes are of one reseller.
  const load = async (): Promise<void> => {
    const { rows } = await pool.query<ResellerTermsRow & { readonly table: number }>({
      name: 'reseller-terms-since',
      text: `select reseller_id, terms, revision, position, tableoid::bigint as table from read.reseller_terms
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
    for (const row of rows) resellers.set(row.reseller_id, keptOf(row))
    seen = rows.at(-1)?.position ?? seen
  }

  return {
    termsOf: (caller, product) => {
      if (!caller.reseller) return null
      const kept = resellers.get(caller.accountId)
      return kept === undefined ? plainTerms : (kept.byProduct.get(product.id) ?? kept.other)
    },
    settingsOf: (reseller) => resellers.get(reseller)?.settings ?? plainSettings,
    ...createLive({ name: 'terms of resellers', watch, load, logger }),
  }
}
