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
