import type pg from 'pg'
import type { ExitState } from '../../domain/exits/events.ts'
import type { CaughtUp } from '../../platform/projections/read-your-writes.ts'
import { type FormInput, hiddenOf, type Problems, problemsOf } from '../../platform/ui/form.ts'
import type { View } from '../../platform/ui/frame.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import {
  type ConsolePage,
  goTo,
  type PersonVisit,
  personPage,
  refusedView,
  show,
} from '../../platform/ui/page.ts'
import { pagedOf, pageRows, pagerOf, tableOf } from '../../platform/ui/table.ts'
import { countText, stateText, timeText } from '../../platform/ui/text.ts'
import { type ExitService, endpointOf, exitsAfter, type ListedExit } from './exit-service.ts'

const path = '/console/operator/exits'

/**
 * The actions of an operator for each state of an exit. Removal needs the command line, because it ends connections.
 */
const stateChanges: Readonly<Partial<Record<ExitState, { readonly to: ExitState; readonly label: string }>>> =
  {
    live: { to: 'drained', label: 'Drain' },
    drained: { to: 'live', label: 'Take back' },
  }

const healthOf = ({ alive, problem, since }: ListedExit): Html =>
  alive
    ? html`${stateText('works', 'good')}${since === null ? nothing : html` <small>since ${timeText(since)}</small>`}`
    : html`${stateText('dead', 'bad')} <small>${problem ?? ''}, since ${timeText(since)}</small>`

type ExitReads = { readonly pool: pg.Pool; readonly caughtUp: CaughtUp }

const view = async (
  { pool, caughtUp }: ExitReads,
  { query }: PersonVisit,
  problems: Problems,
): Promise<View> => {
  const before = query.get('before')
  await caughtUp()
  const found = await exitsAfter(pool, { after: before, limit: pageRows + 1 })
  const { rows, next } = pagedOf(found, ({ exitId }) => exitId)
  return {
    title: 'Exits',
    body: html`${problemsOf(problems)}<p>The ways out of the gateway. A drained exit takes no new sessions; those that it has go on.</p>
${tableOf({
  caption: 'Exits, by their ids',
  rows,
  empty: html`<p>${before === null ? 'None is imported. Where the sandbox runs, its own exits serve.' : 'No exit follows.'}</p>`,
  columns: [
    { title: 'Exit', head: true, cell: ({ exitId }) => html`<code>${exitId}</code>` },
    {
      title: 'Goes out',
      cell: ({ terms }) => html`${endpointOf(terms.via)} <small>${terms.via.kind}, ${terms.family}</small>`,
    },
    {
      title: 'Covers',
      cell: ({ terms: { covers } }) =>
        covers.length > 3
          ? countText(covers.length, 'country', 'countries')
          : covers.map(({ country }) => country).join(', '),
    },
    {
      title: 'Is',
      cell: ({ state }) => (state === 'live' ? stateText('live', 'good') : stateText(state, 'off')),
    },
    { title: 'Health', cell: healthOf },
    {
      title: 'Act',
      cell: ({ exitId, state }) => {
        const stateChange = stateChanges[state]
        return stateChange === undefined
          ? ''
          : html`<form method="post" action="${path}">${hiddenOf('exit', exitId)}<button class="plain" name="to" value="${stateChange.to}">${stateChange.label} <span class="skip">${exitId}</span></button></form>`
      },
    },
  ],
})}
${pagerOf(path, {}, { before, next }, { first: 'From the start', next: 'More exits' })}`,
    same: ['npx farebox exits list', 'npx farebox exits import FILE', 'npx farebox exits drain EXIT'],
  }
}

type ExitServices = ExitReads & { readonly setExitState: ExitService['setState'] }

const change = async (services: ExitServices, visit: PersonVisit, typed: FormInput) => {
  const [exitId, to] = [typed.text('exit'), typed.text('to')]
  const stateChange = Object.values(stateChanges).find((each) => each.to === to)
  if (stateChange === undefined)
    return refusedView(await view(services, visit, { form: 'An exit is drained, or taken back.' }))
  const answer = await services.setExitState([exitId], stateChange.to, visit.cause)
  if (answer.status === 'refused')
    return refusedView(await view(services, visit, { form: 'No exit has this id.' }), 409)
  const doneText = stateChange.to === 'live' ? 'taken back' : 'drained'
  return goTo(
    path,
    answer.changed.length === 0 ? `It was ${doneText} before.` : `Exit ${exitId} is ${doneText}.`,
  )
}

/** The exits of the gateway with their health. They can be drained and resumed here. */
export const exitPages = (services: ExitServices): readonly ConsolePage[] => [
  personPage({
    path,
    name: 'listExits',
    summary: 'The exits of the gateway, their states and their health',
    for: ['operator'],
    nav: { label: 'Exits', group: 'Operator' },
    show: async (visit) => show(await view(services, visit, {})),
    act: { run: (visit, typed) => change(services, visit, typed) },
  }),
]
