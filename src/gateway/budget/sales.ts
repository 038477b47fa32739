/** Bytes of one plan that were sold since they were last reported. */
export type Sales = {
  /** Negative for what was given back. */
  add(bytes: number): void
  /** What is new, never negative: what was given back after its report is set off against later sales. */
  report(): number
  /** Bytes that were reported and then given back: they are paid for, so no lease need cover them. */
  prepaid(): number
  /** Reports nothing of what was sold until now. */
  forget(): void
}

export const createSales = (): Sales => {
  let fresh = 0
  return {
    add: (bytes) => {
      fresh += bytes
    },
    report: () => {
      const bytes = Math.max(0, fresh)
      fresh -= bytes
      return bytes
    },
    prepaid: () => Math.max(0, -fresh),
    forget: () => {
      fresh = 0
    },
  }
}
