/**
 * The number of edits between two texts: an inserted, deleted or replaced letter, or two swapped neighbours (optimal
 * string alignment distance). The time grows with the product of the lengths.
 */
const editsBetween = (from: string, to: string): number => {
  let before: number[] = []
  let row = Array.from({ length: to.length + 1 }, (_, at) => at)
  for (let i = 1; i <= from.length; i++) {
    const next = [i]
    for (let j = 1; j <= to.length; j++) {
      const isEqual = from[i - 1] === to[j - 1]
      const exchanged = i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1]
      next[j] = Math.min(
        row[j]! + 1,
        next[j - 1]! + 1,
        row[j - 1]! + (isEqual ? 0 : 1),
        exchanged ? before[j - 2]! + 1 : Number.POSITIVE_INFINITY,
      )
    }
    before = row
    row = next
  }
  return row[to.length]!
}

/** The largest share of a name that may be misspelt. */
const maxEditShare = 0.34

/**
 * The known name that is closest to a misspelt name. Null if more than a third of every known name differs.
 * @param by returns the part of a name to compare; default: the whole name
 */
export const closestWord = (
  typedWord: string,
  known: readonly string[],
  by: (name: string) => string = (name) => name,
): string | null => {
  // Longer input is not a misspelling, and the time grows with the length.
  const shortened = by(typedWord).slice(0, 100)
  let best: { readonly name: string; readonly edits: number } | null = null
  for (const name of known) {
    const edits = editsBetween(shortened, by(name))
    if (edits <= Math.max(1, by(name).length * maxEditShare) && (best === null || edits < best.edits))
      best = { name, edits }
  }
  return best?.name ?? null
}
