import type { AccountId, CustomerId } from './ids.ts'

/** What a reseller's own id of a customer is, as errors say it. */
export const externalIdForm = '1 to 128 printable characters'

/** Characters: code points, none of them a control, a format or a lone surrogate. */
const printable = /^[^\p{C}]{1,128}$/u

const isBlank = (character: string | undefined): boolean => character === ' ' || character === '\t'

/** Takes off what HTTP takes off the value of a header (RFC 9110, 5.5): blanks and tabs at both ends. */
const trimmed = (text: string): string => {
  let [start, end] = [0, text.length]
  while (start < end && isBlank(text[start])) start += 1
  while (end > start && isBlank(text[end - 1])) end -= 1
  return text.slice(start, end)
}

/**
 * A reseller's own id of a customer as it came in by any entrance: a header, a query, an option of a command. The same
 * text names the same customer everywhere, since blanks around it are no part of it.
 * @returns the id; null for what is none (`externalIdForm`)
 */
export const parseExternalId = (text: string): string | null => {
  const id = trimmed(text)
  return printable.test(id) ? id : null
}

/** The id inside of a reseller's customer: always the same, another one under another reseller. */
export type CustomerIdOf = (reseller: AccountId, ref: string) => CustomerId
