import { isStatementLine } from '../../domain/finance/entries.ts'
import { kindText } from '../../domain/finance/entry-kinds.ts'
import type { Calendar } from '../../kernel/calendar.ts'
import { actorText } from '../../kernel/event.ts'
import { pluralize } from '../../kernel/formats.ts'
import { parsePosition, positionToken } from '../../kernel/log-position.ts'
import { amountWriter } from '../../kernel/money.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { View } from '../../platform/ui/frame.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import { type ConsolePage, type PersonVisit, personPage, type Role } from '../../platform/ui/page.ts'
import { eventName, idText, timeText } from '../../platform/ui/text.ts'
import { type ExplainedEvent, type Explanation, explainEntry, explainResource, orderIn } from './explain.ts'
import { accountText } from './gateway-names.ts'
import { momentForms, momentOf, parseMoment, resourceIds, resourceKind } from './input-forms.ts'
import type { JournalHead } from './journal.ts'
import { MomentPastHead, type Moments } from './moment.ts'
import { factsText, orderText } from './run-explain-command.ts'

type Roles = ReadonlySet<Role>

/** The requested moment as typed, for links; empty: now. */
type AsOf = string

/** The page of an account of the books, as of a moment. */
export const bookAccountPath = (book: string, name: string, asOf: AsOf = ''): string =>
  `/console/finance/account?${new URLSearchParams({ book, name, ...(asOf !== '' && { to: asOf }) })}`

/** The banner of a page that shows a past state, with a link to the current one. */
export const asOfBanner = (asOf: AsOf, nowPath: string): Html =>
  asOf === ''
    ? nothing
    : html`<p class="message warn" role="status">You see the books as of <strong>${asOf}</strong>. <a href="${nowPath}">Show current state</a></p>`

const pathOf = (id: string, roles: Roles, asOf: AsOf): string | null => {
  const isStaff = roles.has('operator') || roles.has('finance')
  if (id.startsWith('acc_')) return isStaff ? `/console/operator/accounts/${id}` : null
  // The pages of an order and a deposit show the current state only.
  if (id.startsWith('ord_') && isStaff && asOf === '') return `/console/operator/orders/${id}`
  if (id.startsWith('dep_') && isStaff && asOf === '') return `/console/operator/deposits/${id}`
  return `/console/trail/${id}${asOf === '' ? '' : `?${new URLSearchParams({ to: asOf })}`}`
}

const ids = /\b((?:acc|ord|dep|sub|pln|prx|ref|scr|crd|whs|key|ntc)_[0-9a-f]{32}|pos_0_\d{1,16})\b/g

/** Links every id in a text that has a page, as of the reader's moment. */
export const linkedText = (text: string, roles: Roles, asOf: AsOf = ''): Html => {
  const parts = text.split(ids)
  return html`${parts.map((part, at) => {
    const path = at % 2 === 1 ? pathOf(part, roles, asOf) : null
    return path === null ? html`${part}` : html`<a href="${path}">${part}</a>`
  })}`
}

/** The postings of an event, in every book. */
const legsOf = ({ postings }: ExplainedEvent, roles: Roles, asOf: AsOf): Html => {
  if (postings.length === 0) return nothing
  const write = amountWriter(postings.map(({ amountMicros }) => amountMicros))
  return html`<ul class="legs">${postings.map(({ book, account, gateway, amountMicros }) => {
    const side = amountMicros > 0n ? 'debit' : 'credit'
    const name = accountText(account, gateway)
    const accountLinkHtml = roles.has('finance')
      ? html`<a href="${bookAccountPath(book, account, asOf)}">${name}</a>`
      : html`${name}`
    return html`<li>${side} ${write(amountMicros < 0n ? -amountMicros : amountMicros)} ${accountLinkHtml} <small>${book}</small></li>\n`
  })}</ul>`
}

const linkOf = (link: ExplainedEvent, roles: Roles, asOf: AsOf): Html => {
  const { event, at, kind, approval } = link
  const { actor, correlationId, recordedAt } = event.metadata
  const order = orderIn(event)
  const facts = [order && orderText(order), factsText(event)].filter((text) => text).join('; ')
  return html`<li><strong title="${event.type}">${kind === null ? eventName(event.type) : kindText(kind)}</strong> ${linkedText(positionToken(event.position), roles, asOf)}
${facts === '' ? nothing : html`<br>${linkedText(facts, roles, asOf)}`}
${legsOf(link, roles, asOf)}
<p class="soft"><small>${timeText(at)}${at === recordedAt ? nothing : html`, recorded at ${timeText(recordedAt)}`} by ${linkedText(actorText(actor), roles, asOf)}${approval === null ? nothing : html`, proposed by ${linkedText(approval.proposedBy ?? '', roles, asOf)} as ${approval.proposalId}`}, through ${correlationId}; ${event.stream} revision ${event.revision}</small></p></li>\n`
}

/** The events of an explanation, oldest first, each with its postings, and the terms of their order. */
export const chainOf = (
  { chain, terms, leftOut }: Explanation,
  roles: Roles,
  asOf: AsOf = '',
): Html => html`${
  leftOut === 0
    ? nothing
    : html`<p class="message warn">${pluralize(leftOut, 'more event')} not shown. These are the latest.</p>`
}
<ol class="timeline">${chain.map((link) => linkOf(link, roles, asOf))}</ol>
${
  terms.length === 0
    ? nothing
    : html`<h2>Terms</h2>
<ul>${terms.map(
        ({ what, event }) =>
          html`<li>${what}: ${eventName(event.type)} at ${linkedText(positionToken(event.position), roles, asOf)}, <small>${timeText(event.metadata.recordedAt)} by ${actorText(event.metadata.actor)}</small></li>\n`,
      )}</ul>`
}`

type TrailReads = {
  readonly db: Db
  readonly log: EventLog
  readonly journalHead: JournalHead
  readonly moments: Pick<Moments, 'atOrBefore'>
  /** Of the accounting time zone. */
  readonly calendar: Calendar
}

/** Events of one page. */
const limit = 200

/**
 * The last position of a trail, and the moment if it is a time.
 * @throws invalid_parameter for an invalid or a future moment
 */
const endOf = async (
  { moments, calendar }: Pick<TrailReads, 'moments' | 'calendar'>,
  asOf: string,
  head: number,
): Promise<{ readonly last: number; readonly atMs: number | null }> => {
  if (asOf === '') return { last: head, atMs: null }
  const typed = parseMoment(asOf)
  if (typed === null) throw refuse('invalid_parameter', `to must be ${momentForms}`)
  const last = await moments.atOrBefore(typed, head).catch((error) => {
    throw error instanceof MomentPastHead ? refuse('invalid_parameter', error.message) : error
  })
  const moment = momentOf(typed, calendar)
  return { last, atMs: moment.kind === 'time' ? moment.atMs : null }
}

const trailOf = async (
  { db, log, journalHead, ...reads }: TrailReads,
  { params, query, visitor }: PersonVisit,
): Promise<View> => {
  const id = params.id ?? ''
  const kind = resourceKind(id)
  const position = kind === null ? parsePosition(id) : null
  if (kind === null && position === null)
    throw refuse('not_found', `ids begin with ${resourceIds}; positions begin with pos_0_`)
  const asOf = (query.get('to') ?? '').trim()
  const head = await journalHead()
  const { last, atMs } = await endOf(reads, asOf, head)
  /** A line of a statement may be dated before events with earlier positions. */
  const isVisible = ({ event, at }: ExplainedEvent): boolean =>
    event.position <= last || (atMs !== null && isStatementLine(event) && Date.parse(at) <= atMs)
  const context = { db, log }
  const found =
    position === null
      ? await explainResource(context, id, { head: last, limit })
      : position > head
        ? null
        : await explainEntry(context, position, limit)
  const chain = found?.chain.filter(isVisible) ?? []
  if (found === null || !chain.some(({ event }) => position === null || event.position === position))
    throw refuse('not_found', asOf === '' ? 'no event has it' : `no event has it as of ${asOf}`)
  return {
    title: kind === null ? 'An event and its request' : `History of a ${kind}`,
    body: html`${asOfBanner(asOf, `/console/trail/${id}`)}<p>${idText(id)}</p>
${chainOf({ ...found, chain }, visitor.roles, asOf)}`,
    cliEquivalents: [`bin/farebox ledger explain ${id} --limit ${limit}`],
  }
}

/** The events of a resource or around an event, with their postings, for roles that may follow money. */
export const trailPages = (reads: TrailReads): readonly ConsolePage[] => [
  personPage({
    path: '/console/trail/{id}',
    name: 'showTrail',
    summary: 'The events of a resource or a ledger entry, with their causes and postings',
    for: ['finance', 'operator'],
    show: (visit) => trailOf(reads, visit),
  }),
]
