/** So many keys are remembered: each holds a text and what it says, about 2 KiB. */
const most = 2_000

/**
 * Reads the text of a row, and remembers by the row's key what it said: the next event about it mostly finds the same text.
 * Nobody may change what it gives.
 */
export const createReadings = <Value>(
  read: (text: string) => Value,
): ((key: string, text: string) => Value) => {
  const known = new Map<string, { readonly text: string; readonly value: Value }>()
  return (key, text) => {
    const before = known.get(key)
    if (before?.text === text) return before.value
    const value = read(text)
    if (known.size >= most) known.clear()
    known.set(key, { text, value })
    return value
  }
}
