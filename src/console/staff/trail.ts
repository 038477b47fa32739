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

/** The page of an account of the books. */
export const bookAccountPath = (book: string, name: string): string =>
  `/console/finance/account?${new URLSearchParams({ book, name })}`

const pathOf = (id: string, roles: Roles): string | null => {
  if (id.startsWith('acc_')) return roles.has('operator') ? `/console/operator/accounts/${id}` : null
  if (id.startsWith('ord_') && roles.has('operator')) return `/console/operator/orders/${id}`
  return `/console/trail/${id}`
}

const ids = /\b((?:acc|ord|dep|sub|pln|prx|ref|scr|crd|whs|key|ntc)_[0-9a-f]{32}|pos_0_\d{1,16})\b/g

/** A text in which every id that has a page is a link to it. */
export const linkedText = (text: string, roles: Roles): Html => {
  const parts = text.split(ids)
  return html`${parts.map((part, at) => {
    const path = at % 2 === 1 ? pathOf(part, roles) : null
    return path === null ? html`${part}` : html`<a href="${path}">${part}</a>`
  })}`
}

/** What an event booked, in every book. */
const legsOf = ({ postings }: Link, roles: Roles): Html => {
  if (postings.length === 0) return nothing
  const write = amountWriter(postings.map(({ amountMicros }) => amountMicros))
  return html`<ul class="legs">${postings.map(({ book, account, gateway, amountMicros }) => {
    const side = amountMicros > 0n ? 'debit' : 'credit'
    const name = accountText(account, gateway)
    const named = roles.has('finance')
      ? html`<a href="${bookAccountPath(book, account)}">${name}</a>`
      : html`${name}`
    return html`<li>${side} ${write(amountMicros < 0n ? -amountMicros : amountMicros)} ${named} <small>${book}</small></li>\n`
  })}</ul>`
}

const linkOf = (link: Link, roles: Roles): Html => {
  const { event } = link
  const { actor, correlationId, recordedAt } = event.metadata
  const order = orderIn(event)
  const facts = [order && orderText(order), factsText(event)].filter((text) => text).join('; ')
  return html`<li><strong>${event.type}</strong> ${linkedText(positionToken(event.position), roles)}
${facts === '' ? nothing : html`<br>${linkedText(facts, roles)}`}
${legsOf(link, roles)}
<p class="soft"><small>${timeText(recordedAt)} by ${linkedText(actorText(actor), roles)}, through ${correlationId}; ${event.stream} revision ${event.revision}</small></p></li>\n`
}

/** The events of an explanation, oldest first, each with what it booked, and the terms that it was decided on. */
export const chainOf = ({ chain, terms, leftOut }: Explanation, roles: Roles): Html => html`${
  leftOut === 0
    ? nothing
    : html`<p class="said warn">${counted(leftOut, 'more event')} left out: these are the last ones.</p>`
}
<ol class="timeline">${chain.map((link) => linkOf(link, roles))}</ol>
${
  terms.length === 0
    ? nothing
    : html`<h2>On these terms</h2>
<ul>${terms.map(
        ({ what, event }) =>
          html`<li>${what}: ${event.type} at ${linkedText(positionToken(event.position), roles)}, <small>${timeText(event.metadata.recordedAt)} by ${actorText(event.metadata.actor)}</small></li>\n`,
      )}</ul>`
}`
