/** Places for work that is under way at once, counted by whose it is. */
export type Places<Owner> = {
  /** How many are free. */
  free(): number
  /** How many each owner has, of those who have any. */
  taken(): ReadonlyMap<Owner, number>
  /** Takes a place until the work, which never rejects, is over. */
  begin(owner: Owner, work: () => Promise<void>): void
  /** Resolves when all that was begun is over. */
  ended(): Promise<void>
}

/** @param freed Told of each place that is free again */
export const createPlaces = <Owner>(total: number, freed: () => void): Places<Owner> => {
  const underWay = new Set<Promise<void>>()
  const taken = new Map<Owner, number>()
  const release = (owner: Owner): void => {
    const left = (taken.get(owner) ?? 1) - 1
    if (left === 0) taken.delete(owner)
    else taken.set(owner, left)
  }
  return {
    free: () => total - underWay.size,
    taken: () => taken,
    begin: (owner, work) => {
      taken.set(owner, (taken.get(owner) ?? 0) + 1)
      const over = work().finally(() => {
        underWay.delete(over)
        release(owner)
        freed()
      })
      underWay.add(over)
    },
    ended: async () => {
      await Promise.all(underWay)
    },
  }
}
