import type { AccountId, CustomerId } from './ids.ts'

/** The format of a reseller's id of a customer, for error messages. */
export const externalIdForm = '1 to 128 printable characters'

/** Code points without control characters, format characters and lone surrogates. */
const printable = /^[^\p{C}]{1,128}$/u

const isBlank = (character: string | undefined): boolean => character === ' ' || character === '\t'

/** Removes blanks and tabs at both ends, as HTTP does with the value of a header (RFC 9110, 5.5). */
const trimmed = (text: string): string => {
  let [start, end] = [0, text.length]
  while (start < end && isBlank(text[start])) start += 1
  while (end > start && isBlank(text[end - 1])) end -= 1
  return text.slice(start, end)
}

/**
 * Parses a reseller's id of a customer, from a header, a query parameter or a command option. Blanks around the id are
 * removed for all of them, and letters with marks get one form (Unicode NFC), so that the same text names the same
 * customer everywhere.
 * @returns the id; null for an invalid text (`externalIdForm`)
 */
export const parseExternalId = (text: string): string | null => {
  const id = trimmed(text).normalize('NFC')
  return printable.test(id) ? id : null
}

/** Returns the internal id of a reseller's customer. It is always the same, and different for each reseller. */
export type CustomerIdOf = (reseller: AccountId, ref: string) => CustomerId
