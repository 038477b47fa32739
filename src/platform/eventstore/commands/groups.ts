/** Joins the commands of a batch by the streams that they write: union-find over their indexes. */
export const createGroups = () => {
  const parents: number[] = []
  const rootOf = (at: number): number => {
    let root = at
    while (parents[root] !== root) root = parents[root]!
    while (parents[at] !== root) {
      const next = parents[at]!
      parents[at] = root
      at = next
    }
    return root
  }
  return {
    rootOf,
    add: (): number => parents.push(parents.length) - 1,
    // The smaller index stays the root, so that items keep the order of their first commands.
    join(one: number, other: number) {
      const [a, b] = [rootOf(one), rootOf(other)]
      parents[Math.max(a, b)] = Math.min(a, b)
    },
  }
}
