import { isDisputeBlock } from '../../domain/accounts/decide.ts'
import { type Html, html } from '../../platform/ui/html.ts'

/** Where customers get help: an e-mail address or an address of a page; null: none is set. */
export type Contact = string | null

/** The link to the contact; null: none is set. */
export const contactLink = (contact: Contact): Html | null =>
  contact === null
    ? null
    : html`<a href="${contact.startsWith('https://') ? contact : `mailto:${contact}`}" rel="noreferrer">${contact}</a>`

/**
 * Why an account is blocked, for its owner. A reason that an operator typed is not shown: it may be about another person.
 * @param reason of the block
 */
export const blockMessage = (reason: string | null, contact: Contact): Html => {
  const link = contactLink(contact)
  const why = reason !== null && isDisputeBlock(reason)
  return html`<p class="message bad" role="alert">The account is blocked${why ? ' because a payment was disputed at the bank of the payer' : null}: it can read but not change or buy anything.${link === null ? null : html` To clear this, contact us: ${link}`}</p>`
}
