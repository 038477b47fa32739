import type pg from 'pg'
import { explainEntry, explainThing } from '../../books/finance/explain.ts'
import { type Moments, momentForms, PastTheEnd, parseMoment } from '../../books/finance/moment.ts'
import { thingIds, thingWord } from '../../books/finance/trail.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { refuse } from '../../platform/http/errors.ts'
import { html } from '../../platform/pages/html.ts'
import { parsePosition } from '../../terms/position.ts'
import { idText } from '../frame/text.ts'
import { type ConsolePage, type PersonVisit, personPage, show } from '../pages/page.ts'
import { asOfBanner, chainOf } from './trail.ts'

export type TrailDeps = {
  readonly pool: pg.Pool
  readonly log: EventLog
  /** The log's head, once the journal has passed it. */
  readonly journalHead: () => Promise<number>
  readonly moments: Pick<Moments, 'atOrBefore'>
}

/** Events of one page. */
const limit = 200

/** How far a trail is followed. @throws invalid_parameter for what is no moment, or one that is still to come */
const endOf = async ({ moments }: TrailDeps, asOf: string, head: number): Promise<number> => {
  if (asOf === '') return head
  const moment = parseMoment(asOf)
  if (moment === null) throw refuse('invalid_parameter', `to must be ${momentForms}`)
  return moments.atOrBefore(moment, head).catch((error) => {
    throw error instanceof PastTheEnd ? refuse('invalid_parameter', error.message) : error
  })
}

const trailOf = async (deps: TrailDeps, { params, query, visitor }: PersonVisit) => {
  const { pool, log, journalHead } = deps
  const id = params.id ?? ''
  const word = thingWord(id)
  const position = word === null ? parsePosition(id) : null
  if (word === null && position === null)
    throw refuse('not_found', `ids that can be followed begin with ${thingIds}; positions with pos_0_`)
  const asOf = (query.get('to') ?? '').trim()
  const head = await endOf(deps, asOf, await journalHead())
  const context = { pool, log }
  const found =
    position === null
      ? await explainThing(context, id, { head, limit })
      : position > head
        ? null
        : await explainEntry(context, position, limit)
  if (found === null)
    throw refuse('not_found', asOf === '' ? 'no event names it' : `no event names it as of ${asOf}`)
  const shown = { ...found, chain: found.chain.filter(({ event }) => event.position <= head) }
  return show({
    title: word === null ? 'An event and its request' : `What happened with a ${word}`,
    body: html`${asOfBanner(asOf, `/console/trail/${id}`)}<p>${idText(id)}</p>
${chainOf(shown, visitor.roles, asOf)}`,
    same: [`npx farebox ledger explain ${id} --limit ${limit}`],
  })
}

/** Everything that happened with a thing or around an event, with what it booked, for whoever may follow money. */
export const trailPages = (deps: TrailDeps): readonly ConsolePage[] => [
  personPage({
    path: '/console/trail/{id}',
    name: 'showTrail',
    summary: 'The events behind a thing or an entry, with who caused each and what it booked',
    for: ['finance', 'operator'],
    show: (visit) => trailOf(deps, visit),
  }),
]
