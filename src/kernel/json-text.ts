/** An object of a stored text that may be anybody's, with what it says unchecked; null when the text holds none. */
export const parseUntrustedObject = <Shape extends object>(text: string): Partial<Shape> | null => {
  try {
    const parsed: unknown = JSON.parse(text)
    return typeof parsed === 'object' && parsed !== null ? (parsed as Partial<Shape>) : null
  } catch {
    return null
  }
}

const quote = 0x22
const backslash = 0x5c

/** Where the text that opens at a quote ends, or where the JSON does. */
const endOfText = (json: string, start: number): number => {
  for (let end = json.indexOf('"', start + 1); end !== -1; end = json.indexOf('"', end + 1)) {
    let before = end
    while (json.charCodeAt(before - 1) === backslash) before -= 1
    if ((end - before) % 2 === 0) return end
  }
  return json.length
}

/** Whether a JSON text nests arrays and objects in at most this many levels. Its parts are not visited recursively. */
export const isNestedWithin = (levels: number, json: string): boolean => {
  let depth = 0
  for (let at = 0; at < json.length; at++) {
    const char = json.charCodeAt(at)
    if (char === quote) at = endOfText(json, at)
    else if (char === 0x5b || char === 0x7b) {
      depth += 1
      if (depth > levels) return false
    } else if (char === 0x5d || char === 0x7d) depth -= 1
  }
  return true
}

/**
 * A JSON value in a form in which the order of an object's fields makes no difference, for fingerprints. Fields that are
 * undefined are left out.
 */
export const canonical = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(canonical)
  if (value === null || typeof value !== 'object') return value
  return Object.entries(value)
    .filter(([, field]) => field !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, field]) => [name, canonical(field)])
}

/** The fields of an object that are not null: in a request, null for an optional field is the same as leaving it out. */
export const withoutNulls = (fields: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> =>
  Object.fromEntries(Object.entries(fields).filter(([, field]) => field !== null))

/** JSON with the fields of every object in order of their names: one text for one meaning. */
export const canonicalJson = (value: unknown): string =>
  JSON.stringify(value, (_key, inner) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  )

/**
 * Whether Postgres takes a text in every type of column: `text` refuses NUL, `jsonb` half of a surrogate pair too. An event
 * that holds such a text stops the read tables of everybody, so it is refused where it comes in.
 */
export const isStorable = (text: string): boolean => text.isWellFormed() && !text.includes('\0')

/** One of their escapes, which no escaped backslash stands before. */
const escapedUnstorable = /(?<!\\)(?:\\\\)*\\u(?:0000|d[89a-f])/

/** Whether every text in what `JSON.stringify` wrote is storable. Of surrogates it escapes those only that have no other half. */
export const isStorableJson = (json: string): boolean =>
  !json.includes('\\u') || !escapedUnstorable.test(json)

/** How a refusal names such a text. */
export const storableText = 'text without NUL characters and halves of surrogate pairs'

/**
 * The JSON text of an object with these members and with some more whose values are JSON text already, so that long ones
 * are not parsed only to be written again. The names of the latter are others than those of the former.
 */
export const joinJsonMembers = (members: object, texts: Readonly<Record<string, string>>): string => {
  const inner = JSON.stringify(members).slice(1, -1)
  const more = Object.entries(texts).map(([name, text]) => `${JSON.stringify(name)}:${text}`)
  return `{${[...(inner === '' ? [] : [inner]), ...more].join(',')}}`
}
