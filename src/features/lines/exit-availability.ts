import type { FoundPlan } from '../../../projections/plans.ts'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import type { Generate } from '../../domain/catalog/product.ts'
import { anyTargeting, type Targeting, writeTargeting } from '../../domain/exits/line.ts'
import type { Family } from '../../domain/shared/order-terms.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { ExitHealth, ExitIndex } from '../exits/index.ts'

const hasNoTargeting = (targeting: Targeting): boolean =>
  writeTargeting({ ...targeting, strict: true }) === writeTargeting(anyTargeting)

/** Targeting that the lines of a plan may use, and its current availability. */
export const createExitAvailability = (deps: {
  readonly catalog: { current(): Catalog }
  readonly exits: {
    readonly index: () => ExitIndex
    readonly health: Pick<ExitHealth, 'isAlive'>
    /** Resolves when the exits in memory are recent. */
    readonly recent: () => Promise<void>
  }
}) => {
  const { catalog, exits } = deps

  const sellableTargetingOf = (
    plan: Pick<FoundPlan, 'productId'>,
  ): { readonly generate: Generate; readonly family: Family | null } => {
    const product = catalog.current().resolve(plan.productId)
    return product && 'generate' in product
      ? { generate: product.generate, family: product.family }
      : { generate: { maxCount: 0, targeting: [] }, family: null }
  }

  /** Refuses targeting that no line can use: a misspelt place, or a place without an exit now. */
  const refuseUnavailable = async (targeting: Targeting, family: Family | null): Promise<void> => {
    await exits.recent()
    const index = exits.index()
    const unknown = index.unknownPlace(targeting)
    if (unknown) throw refuse('invalid_targeting', unknown.detail)
    if (hasNoTargeting(targeting)) return
    const isAvailable = (requested: Targeting): boolean =>
      index
        .matching(requested, { udp: requested.udp, family })
        .some(({ exitId }) => exits.health.isAlive(exitId))
    const { country, strict, udp } = targeting
    if (isAvailable(targeting)) return
    const countryTargeting = { ...anyTargeting, country }
    if (country !== null && !isAvailable(countryTargeting))
      throw refuse(
        'invalid_targeting',
        'country is one that no exit serves now: GET /api/v1/geo/countries lists those that there are',
      )
    if (udp && !isAvailable({ ...countryTargeting, udp }))
      throw refuse('invalid_udp', 'udp: no exit of this kind passes UDP on now')
    if (strict || country === null)
      throw refuse(
        'invalid_targeting',
        'no exit that is there now matches all of this: widen it, or send strict false to fall back to the country',
      )
  }

  return { sellableTargetingOf, refuseUnavailable }
}
