/** A number and what it counts, e.g. `1 seal`, `2 seals`, `1 entry`, `2 entries`. */
export const pluralize = (count: number | bigint, one: string, more = `${one}s`): string =>
  `${count} ${Number(count) === 1 ? one : more}`

/**
 * Options of an `LRUCache` of at most so many entries that takes memory as it fills. `max` makes room for all of them when
 * the cache is made: 10 ms for 100,000 entries, at every start.
 */
export const growingCacheOptions = (entries: number) => ({ maxSize: entries, sizeCalculation: () => 1 })

/**
 * Whether a text is an https address that every reader takes for the same: it says `https://` and a host, with neither a
 * user name nor backslashes, spaces or control characters. The URL standard repairs `https:evil.example`,
 * `https:///evil.example` and `https:\\evil.example`; other readers see a path or another host in them.
 */
export const isHttpsAddress = (text: string): boolean =>
  /^https:\/\/[^/?#@\\]+(?:[/?#]|$)/i.test(text) &&
  /^[^\s\p{C}\\]+$/u.test(text) &&
  URL.parse(text)?.protocol === 'https:'

/** The text without the characters `end` at its end. `/0+$/` would take a time that grows with the square of its length. */
export const trimEnd = (text: string, end: string): string => {
  let length = text.length
  while (length > 0 && text[length - 1] === end) length--
  return text.slice(0, length)
}

const form = /^[^\s@\p{Cc}\p{Cs}]{1,64}@[^\s@\p{Cc}\p{Cs}]{1,189}$/u

/** Whether the text can be an e-mail address: only a message that arrives proves more (RFC 5321, 4.5.3.1 lengths). */
export const isEmail = (text: string): boolean => form.test(text)
