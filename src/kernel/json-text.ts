/** Parses a stored text that may be forged. Returns an object with unvalidated fields, or null without an object. */
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

/** Index of the closing quote of the string that opens at `start`; without one, the length of the JSON. */
const endOfText = (json: string, start: number): number => {
  for (let end = json.indexOf('"', start + 1); end !== -1; end = json.indexOf('"', end + 1)) {
    let before = end
    while (json.charCodeAt(before - 1) === backslash) before -= 1
    if ((end - before) % 2 === 0) return end
  }
  return json.length
}

/** Whether a JSON text nests arrays and objects in at most this many levels. It does not use recursion. */
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

/** A canonical form of a JSON value for fingerprints: independent of the order of fields, without undefined fields. */
export const canonical = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(canonical)
  if (value === null || typeof value !== 'object') return value
  return Object.entries(value)
    .filter(([, field]) => field !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, field]) => [name, canonical(field)])
}

/** The fields of an object that are not null: in a request, null is the same as an absent optional field. */
export const withoutNulls = (fields: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> =>
  Object.fromEntries(Object.entries(fields).filter(([, field]) => field !== null))

/** Canonical JSON: the fields of every object are sorted by name. */
export const canonicalJson = (value: unknown): string =>
  JSON.stringify(value, (_key, inner) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  )

/**
 * Whether Postgres can store a text in every type of column: `text` refuses NUL, `jsonb` also refuses a lone surrogate.
 * An event with such a text would stop the projections of all accounts, so every input with it is refused.
 */
export const isStorable = (text: string): boolean => text.isWellFormed() && !text.includes('\0')

/** The JSON escape of NUL or of a lone surrogate, not after an escaped backslash. */
const escapedUnstorable = /(?<!\\)(?:\\\\)*\\u(?:0000|d[89a-f])/

/** Whether all texts in an output of `JSON.stringify` are storable. `JSON.stringify` escapes only lone surrogates. */
export const isStorableJson = (json: string): boolean =>
  !json.includes('\\u') || !escapedUnstorable.test(json)

/** Description of a storable text, for error messages. */
export const storableText = 'text without NUL characters and halves of surrogate pairs'

/**
 * The JSON text of an object with `members` and with `texts`, whose values are JSON texts. So long values need not be
 * parsed and stringified again. The two must not share a name.
 */
export const joinJsonMembers = (members: object, texts: Readonly<Record<string, string>>): string => {
  const inner = JSON.stringify(members).slice(1, -1)
  const more = Object.entries(texts).map(([name, text]) => `${JSON.stringify(name)}:${text}`)
  return `{${[...(inner === '' ? [] : [inner]), ...more].join(',')}}`
}
