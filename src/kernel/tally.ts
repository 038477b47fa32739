/** The count of each owner. Only owners with a count above zero are stored. */
export type Tally<Owner> = {
  of(owner: Owner): number
  /** The owners with a count above zero. */
  all(): ReadonlyMap<Owner, number>
  add(owner: Owner): void
  /** Only for an owner that was added before. */
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
