/** The largest discount from the list price, basis points. With 10,000 the price would be 0. */
export const maxDiscountBp = 9_999
/** With this markup even the largest order is a safe integer of micro-dollars. */
export const maxMarkupMillionths = 100_000_000
/** $10,000 for one unit. */
export const maxRetailMicros = 10_000_000_000
/** The tiers of one retail price. */
export const maxRetailTiers = 20
