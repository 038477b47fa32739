/** How often a subscription renews, in the catalogue's words (spec.md, "Product", `billing.intervals`). */
export const intervals = ['month', 'year'] as const
export type Interval = (typeof intervals)[number]

/**
 * What one payment lasts. Traffic is paid by the calendar: `month` 1 or 12. What is sold for a time, such as rented
 * addresses, lasts as long as was paid for: `day` 30 or 365.
 */
export type Period = { readonly unit: 'day' | 'month'; readonly count: number }
