import type { ScrapeCost } from './usage.ts'

/** What calls brought and cost, micro-dollars; cost and margin are null while nobody has said what a credit costs. */
export type Earned = {
  readonly costMicros: number | null
  readonly marginMicros: number | null
}

/** @param creditMicros what a provider's credit costs us; null: not known */
export const earnedOf = <Cost extends ScrapeCost>(cost: Cost, creditMicros: number | null): Cost & Earned => {
  const costMicros = creditMicros === null ? null : cost.credits * creditMicros
  return { ...cost, costMicros, marginMicros: costMicros === null ? null : cost.chargedMicros - costMicros }
}
