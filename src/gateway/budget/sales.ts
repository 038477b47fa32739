export type Direction = 'up' | 'down'

/** Bytes by their direction: `up` from the client to the target. */
export type Traffic = { readonly up: number; readonly down: number }

/** What was sold of one plan since it was last reported. */
export type Sales = {
  /** Negative for what was given back. */
  add(bytes: number, direction: Direction): void
  /** What is new, never negative: what was given back after its report is set off against later sales. */
  report(): Traffic
  /** Bytes that were reported and then given back: they are paid for, so no lease need cover them. */
  prepaid(): number
  /** Reports nothing of what was sold until now. */
  forget(): void
}

export const createSales = (): Sales => {
  const fresh = { up: 0, down: 0 }
  const taken = (direction: Direction): number => {
    const bytes = Math.max(0, fresh[direction])
    fresh[direction] -= bytes
    return bytes
  }
  return {
    add: (bytes, direction) => {
      fresh[direction] += bytes
    },
    report: () => ({ up: taken('up'), down: taken('down') }),
    prepaid: () => -Math.min(0, fresh.up) - Math.min(0, fresh.down),
    forget: () => {
      fresh.up = 0
      fresh.down = 0
    },
  }
}
