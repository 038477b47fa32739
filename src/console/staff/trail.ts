import { amountWriter } from '../../books/finance/amounts.ts'
import type { Explanation, Link } from '../../books/finance/explain.ts'
import { orderIn } from '../../books/finance/explain-terms.ts'
import { factsText, orderText } from '../../books/finance/explain-text.ts'
import { accountText } from '../../books/finance/gateway-names.ts'
import { counted } from '../../kernel/counted.ts'
import { actorText } from '../../platform/eventstore/event.ts'
import { type Html, html, nothing } from '../../platform/pages/html.ts'
import { positionToken } from '../../terms/position.ts'
import type { Role } from '../frame/roles.ts'
import { timeText } from '../frame/text.ts'

type Roles = ReadonlySet<Role>

/** A moment that was asked for, as it was typed, kept in links; empty: now. */
type AsOf = string

/** The page of an account of the books, as of a moment. */
export const bookAccountPath = (book: string, name: string, asOf: AsOf = ''): string =>
  `/console/finance/account?${new URLSearchParams({ book, name, ...(asOf !== '' && { to: asOf }) })}`

/** Says that a page shows a former state, with the way back to now. */
export const asOfBanner = (asOf: AsOf, nowPath: string): Html =>
  asOf === ''
    ? nothing
    : html`<p class="said warn" role="status">You see the books as of <strong>${asOf}</strong>, not of now. <a href="${nowPath}">Show now</a></p>`

const pathOf = (id: string, roles: Roles, asOf: AsOf): string | null => {
  if (id.startsWith('acc_')) return roles.has('operator') ? `/console/operator/accounts/${id}` : null
  // The operator's page of an order knows no other time than now.
  if (id.startsWith('ord_') && roles.has('operator') && asOf === '') return `/console/operator/orders/${id}`
  return `/console/trail/${id}${asOf === '' ? '' : `?${new URLSearchParams({ to: asOf })}`}`
}

const ids = /\b((?:acc|ord|dep|sub|pln|prx|ref|scr|crd|whs|key|ntc)_[0-9a-f]{32}|pos_0_\d{1,16})\b/g

/** A text in which every id that has a page is a link to it, as of the moment that the reader is at. */
export const linkedText = (text: string, roles: Roles, asOf: AsOf = ''): Html => {
  const parts = text.split(ids)
  return html`${parts.map((part, at) => {
    const path = at % 2 === 1 ? pathOf(part, roles, asOf) : null
    return path === null ? html`${part}` : html`<a href="${path}">${part}</a>`
  })}`
}

/** What an event booked, in every book. */
const legsOf = ({ postings }: Link, roles: Roles, asOf: AsOf): Html => {
  if (postings.length === 0) return nothing
  const write = amountWriter(postings.map(({ amountMicros }) => amountMicros))
  return html`<ul class="legs">${postings.map(({ book, account, gateway, amountMicros }) => {
    const side = amountMicros > 0n ? 'debit' : 'credit'
    const name = accountText(account, gateway)
    const named = roles.has('finance')
      ? html`<a href="${bookAccountPath(book, account, asOf)}">${name}</a>`
      : html`${name}`
    return html`<li>${side} ${write(amountMicros < 0n ? -amountMicros : amountMicros)} ${named} <small>${book}</small></li>\n`
  })}</ul>`
}

const linkOf = (link: Link, roles: Roles, asOf: AsOf): Html => {
  const { event } = link
  const { actor, correlationId, recordedAt } = event.metadata
  const order = orderIn(event)
  const facts = [order && orderText(order), factsText(event)].filter((text) => text).join('; ')
  return html`<li><strong>${event.type}</strong> ${linkedText(positionToken(event.position), roles, asOf)}
${facts === '' ? nothing : html`<br>${linkedText(facts, roles, asOf)}`}
${legsOf(link, roles, asOf)}
<p class="soft"><small>${timeText(recordedAt)} by ${linkedText(actorText(actor), roles, asOf)}, through ${correlationId}; ${event.stream} revision ${event.revision}</small></p></li>\n`
}

/** The events of an explanation, oldest first, each with what it booked, and the terms that it was decided on. */
export const chainOf = (
  { chain, terms, leftOut }: Explanation,
  roles: Roles,
  asOf: AsOf = '',
): Html => html`${
  leftOut === 0
    ? nothing
    : html`<p class="said warn">${counted(leftOut, 'more event')} left out: these are the last ones.</p>`
}
<ol class="timeline">${chain.map((link) => linkOf(link, roles, asOf))}</ol>
${
  terms.length === 0
    ? nothing
    : html`<h2>On these terms</h2>
<ul>${terms.map(
        ({ what, event }) =>
          html`<li>${what}: ${event.type} at ${linkedText(positionToken(event.position), roles, asOf)}, <small>${timeText(event.metadata.recordedAt)} by ${actorText(event.metadata.actor)}</small></li>\n`,
      )}</ul>`
}`
