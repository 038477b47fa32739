/** How many each owner has; kept for those only who have any. */
export type Tally<Owner> = {
  of(owner: Owner): number
  /** Those who have any, and how many. */
  all(): ReadonlyMap<Owner, number>
  add(owner: Owner): void
  /** One that was added before. */
  remove(owner: Owner): void
}

export const createTally = <Owner>(): Tally<Owner> => {
  const counts = new Map<Owner, number>()
  const of = (owner: Owner): number => counts.get(owner) ?? 0
  return {
    of,
    all: () => counts,
    add: (owner) => {
      counts.set(owner, of(owner) + 1)
    },
    remove: (owner) => {
      const left = of(owner) - 1
      if (left > 0) counts.set(owner, left)
      else counts.delete(owner)
    },
  }
}
