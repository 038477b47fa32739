/** A plan counts as low when this share of its total or less remains (docs/http-api.md, "Webhooks and notices"). */
export const thresholdPct = 10

/**
 * Whether that little of a plan's traffic remains; bytes. False for a plan that is sold by time, and for one whose traffic
 * refunds took back whole.
 */
export const isLow = (totalBytes: number | null, usedBytes: number): boolean =>
  totalBytes !== null && totalBytes > 0 && (totalBytes - usedBytes) * 100 <= totalBytes * thresholdPct
