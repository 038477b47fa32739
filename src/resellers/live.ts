import type pg from 'pg'
import type { Logger } from 'pino'
import { plainTerms, type ResellerTerms, retailKey } from '../catalog/pricing.ts'
import type { TermsOf } from '../catalog/routes.ts'
import type { AccountId } from '../ids.ts'
import { type Poller, startPoller } from '../poller.ts'
import { plainSettings, type Terms } from './fold.ts'

/** All resellers' terms in memory, kept up with the read model: neither a quote nor an order waits for a query. */
export type LiveTerms = {
  /** What a reseller pays and asks for a product; null for a key that is no reseller's. */
  readonly termsOf: TermsOf
  /** A reseller's settings, as of the last refresh. */
  settingsOf(reseller: AccountId): Terms
  /** Resolves once everything that the read model held when it was called is current. */
  refresh(): Promise<void>
  /** Refreshes, then looks for changes until `stop`. Rejects when the first refresh fails. */
  start(): Promise<void>
  stop(): Promise<void>
}

type Row = {
  readonly reseller_id: AccountId
  readonly terms: Terms
  readonly revision: number
  readonly position: number
}

type Kept = {
  readonly settings: Terms
  readonly byProduct: ReadonlyMap<string, ResellerTerms>
  readonly other: ResellerTerms
}

const keptOf = ({ terms, revision }: Pick<Row, 'terms' | 'revision'>): Kept => {
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
 * Follows `read.reseller_terms`, also across a rebuild of it. A change shows within about `intervalMs` (200) on every
 * process. Whoever serves prices refreshes it before the first one: without its row, a reseller has no terms.
 */
export const createLiveTerms = (deps: {
  readonly pool: pg.Pool
  readonly logger: Logger
  readonly intervalMs?: number
}): LiveTerms => {
  const { pool, logger, intervalMs = 200 } = deps
  const resellers = new Map<string, Kept>()
  let seen = 0
  let running: Promise<void> = Promise.resolve()
  let poller: Poller | null = null

  // The rows of one stream change one after another, and positions of different streams appear in the tables in order.
  const load = async (): Promise<void> => {
    const { rows } = await pool.query<Row>({
      name: 'reseller-terms-since',
      text: `select reseller_id, terms, revision, position from read.reseller_terms
             where position > $1::bigint order by position`,
      values: [seen],
    })
    for (const row of rows) resellers.set(row.reseller_id, keptOf(row))
    seen = rows.at(-1)?.position ?? seen
  }

  // One after another: an older row never replaces a newer one.
  const refresh = (): Promise<void> => {
    const next = running.then(load)
    running = next.catch(() => undefined)
    return next
  }

  return {
    termsOf: (caller, product) => {
      if (!caller.reseller) return null
      const kept = resellers.get(caller.accountId)
      return kept === undefined ? plainTerms : (kept.byProduct.get(product.id) ?? kept.other)
    },
    settingsOf: (reseller) => resellers.get(reseller)?.settings ?? plainSettings,
    refresh,
    start: async () => {
      await refresh()
      poller ??= startPoller({ name: 'reseller-terms', intervalMs, work: refresh, logger })
    },
    stop: async () => {
      await poller?.stop()
      poller = null
    },
  }
}
