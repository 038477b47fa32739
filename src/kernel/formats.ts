/** A number and its noun, e.g. `1 seal`, `2 seals`, `1 entry`, `2 entries`. */
export const pluralize = (count: number | bigint, one: string, more = `${one}s`): string =>
  `${count} ${Number(count) === 1 ? one : more}`

/**
 * Options of an `LRUCache` with a maximum number of entries that allocates memory as it fills. The option `max` would
 * allocate memory for all entries at startup: 10 ms for 100,000 entries.
 */
export const growingCacheOptions = (entries: number) => ({ maxSize: entries, sizeCalculation: () => 1 })

/**
 * Whether a text is an https address that all parsers read in the same way: `https://` and a host, without a user name,
 * backslashes, spaces or control characters. The URL standard repairs `https:evil.example`, `https:///evil.example` and
 * `https:\\evil.example`; other parsers read a path or another host.
 */
export const isHttpsAddress = (text: string): boolean =>
  /^https:\/\/[^/?#@\\]+(?:[/?#]|$)/i.test(text) &&
  /^[^\s\p{C}\\]+$/u.test(text) &&
  URL.parse(text)?.protocol === 'https:'

/** The text without the trailing characters `end`. The time of a pattern such as `/0+$/` is quadratic in the length. */
export const trimEnd = (text: string, end: string): string => {
  let length = text.length
  while (length > 0 && text[length - 1] === end) length--
  return text.slice(0, length)
}

const form = /^[^\s@\p{Cc}\p{Cs}]{1,64}@[^\s@\p{Cc}\p{Cs}]{1,189}$/u

/** Whether the text may be an e-mail address (lengths: RFC 5321, 4.5.3.1). Only a delivered message proves more. */
export const isEmail = (text: string): boolean => form.test(text)
