/** 1 MB. */
export const minLimitBytes = 1_000_000
/** 1 PB. */
export const maxLimitBytes = 1_000_000_000_000_000
