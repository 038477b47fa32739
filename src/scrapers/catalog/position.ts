/** A position in a list that is told by two values, as one text. */
export type TwoPart = { readonly first: string; readonly second: string }

const mark = 'two.'

/** Both values in one text, for `nextCursor`. */
export const packed = ({ first, second }: TwoPart): string =>
  `${mark}${Buffer.from(JSON.stringify([first, second])).toString('base64url')}`

/** What `packed` made; null for any other text. */
export const unpacked = (text: string): TwoPart | null => {
  if (!text.startsWith(mark)) return null
  try {
    const pair: unknown = JSON.parse(Buffer.from(text.slice(mark.length), 'base64url').toString('utf8'))
    if (!Array.isArray(pair) || pair.length !== 2) return null
    const [first, second] = pair as readonly unknown[]
    return typeof first === 'string' && typeof second === 'string' ? { first, second } : null
  } catch {
    return null
  }
}
