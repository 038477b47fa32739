/** The value that a share of the rising values stays below; NaN of none. */
export const percentile = (rising: readonly number[], share: number): number =>
  rising[Math.min(rising.length - 1, Math.floor(rising.length * share))] ?? Number.NaN
