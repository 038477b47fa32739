import type { PlatformCost } from './usage.ts'

/** What a platform brought and cost, micro-dollars; cost and margin are null while nobody has said what a credit costs. */
export type Earned = PlatformCost & {
  readonly costMicros: number | null
  readonly marginMicros: number | null
}

/** @param creditMicros what a provider's credit costs us; null: not known */
export const earnedOf = (cost: PlatformCost, creditMicros: number | null): Earned => {
  const costMicros = creditMicros === null ? null : cost.credits * creditMicros
  return { ...cost, costMicros, marginMicros: costMicros === null ? null : cost.chargedMicros - costMicros }
}

/** The sum over platforms. */
export const allOf = (rows: readonly Earned[]): Omit<Earned, 'platform'> => {
  const sum = (pick: (row: Earned) => number): number => rows.reduce((all, row) => all + pick(row), 0)
  const known = rows.every(({ costMicros }) => costMicros !== null)
  return {
    calls: sum(({ calls }) => calls),
    billed: sum(({ billed }) => billed),
    found: sum(({ found }) => found),
    empty: sum(({ empty }) => empty),
    notFound: sum(({ notFound }) => notFound),
    restricted: sum(({ restricted }) => restricted),
    failed: sum(({ failed }) => failed),
    cached: sum(({ cached }) => cached),
    chargedMicros: sum(({ chargedMicros }) => chargedMicros),
    credits: sum(({ credits }) => credits),
    costMicros: known ? sum(({ costMicros }) => costMicros ?? 0) : null,
    marginMicros: known ? sum(({ marginMicros }) => marginMicros ?? 0) : null,
  }
}
