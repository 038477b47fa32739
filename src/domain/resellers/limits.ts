/** Off the list price, in basis points: at 10,000 nothing would be left to pay. */
export const maxDiscountBp = 9_999
/** The largest order at the largest markup is still a safe integer of micro-dollars. */
export const maxMarkupMillionths = 100_000_000
/** $10,000 for one unit. */
export const maxRetailMicros = 10_000_000_000
