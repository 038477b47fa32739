import type pg from 'pg'
import { explainEntry, explainThing } from '../../books/finance/explain.ts'
import { thingIds, thingWord } from '../../books/finance/trail.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { refuse } from '../../platform/http/errors.ts'
import { html } from '../../platform/pages/html.ts'
import { parsePosition } from '../../terms/position.ts'
import { idText } from '../frame/text.ts'
import { type ConsolePage, type PersonVisit, personPage, show } from '../pages/page.ts'
import { chainOf } from './trail.ts'

export type TrailDeps = {
  readonly pool: pg.Pool
  readonly log: EventLog
  /** The log's head, once the journal has passed it. */
  readonly journalHead: () => Promise<number>
}

/** Events of one page. */
const limit = 200

const trailOf = async ({ pool, log, journalHead }: TrailDeps, { params, visitor }: PersonVisit) => {
  const id = params.id ?? ''
  const word = thingWord(id)
  const position = word === null ? parsePosition(id) : null
  if (word === null && position === null)
    throw refuse('not_found', `ids that can be followed begin with ${thingIds}; positions with pos_0_`)
  const head = await journalHead()
  const context = { pool, log }
  const found =
    position === null
      ? await explainThing(context, id, { head, limit })
      : position > head
        ? null
        : await explainEntry(context, position, limit)
  if (found === null) throw refuse('not_found', 'no event names it')
  return show({
    title: word === null ? 'An event and its request' : `What happened with a ${word}`,
    body: html`<p>${idText(id)}</p>
${chainOf(found, visitor.roles)}`,
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
