/** What is wrong in an operator's input: where, what stands there, and what is expected instead. */
export type Problem = { readonly path: string; readonly value: unknown; readonly expected: string }

const shown = (value: unknown): string => {
  const text = value === undefined ? 'nothing' : JSON.stringify(value)
  return text.length > 80 ? `${text.slice(0, 77)}...` : text
}

/** One line a problem, e.g. `products[0].unit: found 5; expected of type string`. */
export const problemText = ({ path, value, expected }: Problem): string =>
  `${path === '' ? 'the input' : path}: found ${shown(value)}; expected ${expected}`
