import type { ExitState } from '../../domain/exits/events.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { CaughtUp } from '../../platform/projections/read-your-writes.ts'
import { hiddenOf, postButton } from '../../platform/ui/form.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import { listPage } from '../../platform/ui/list.ts'
import { type ConsolePage, goTo, operatorPage, refused } from '../../platform/ui/page.ts'
import { nameColumn, stateColumn, textColumn } from '../../platform/ui/table.ts'
import { countText, stateText, timeText } from '../../platform/ui/text.ts'
import { type ExitService, endpointOf, exitsAfter, type ListedExit } from './exit-service.ts'

const path = '/console/operator/exits'

/**
 * The actions of an operator for each state of an exit. Removal needs the command line, because it ends connections.
 */
const stateChanges: Readonly<Partial<Record<ExitState, { readonly to: ExitState; readonly label: string }>>> =
  {
    live: { to: 'drained', label: 'Drain' },
    drained: { to: 'live', label: 'Resume' },
  }

const healthOf = ({ alive, problem, since }: ListedExit): Html =>
  alive
    ? html`${stateText('works', 'good')}${since === null ? nothing : html` <small>since ${timeText(since)}</small>`}`
    : html`${stateText('dead', 'bad')} <small>${problem ?? ''}, since ${timeText(since)}</small>`

/** The exits of the gateway with their health. They can be drained and resumed here. */
export const exitPages = ({
  db,
  caughtUp,
  setExitState,
}: {
  readonly db: Db
  readonly caughtUp: CaughtUp
  readonly setExitState: ExitService['setState']
}): readonly ConsolePage[] => [
  listPage(operatorPage, {
    path,
    name: 'listExits',
    summary: 'The exits of the gateway, their states and their health',
    title: 'Exits',
    intro: () =>
      html`<p>Upstream exits of the gateway. A drained exit takes no new sessions; existing ones finish.</p>`,
    caption: 'Exits by id',
    parseKey: (text: string | null) => text,
    load: async (_, page) => {
      await caughtUp()
      return exitsAfter(db, page)
    },
    keyOf: ({ exitId }) => exitId,
    columns: ({ form }) => [
      nameColumn('Exit', ({ exitId }) => ({ text: exitId })),
      textColumn('Endpoint', ({ terms }) => `${endpointOf(terms.via)}, ${terms.via.kind}, ${terms.family}`, {
        place: 'plain',
      }),
      textColumn('Countries', ({ terms: { covers } }) =>
        covers.length > 3
          ? countText(covers.length, 'country', 'countries')
          : covers.map(({ country }) => country).join(', '),
      ),
      stateColumn('State', ({ state }) => [state, state === 'live' ? 'good' : 'off']),
      { title: 'Health', place: 'plain', cell: healthOf },
      {
        title: 'Action',
        place: 'plain',
        cell: ({ exitId, state }) => {
          const change = stateChanges[state]
          if (change === undefined) return ''
          const { to: value, label } = change
          const fields = hiddenOf('exit', exitId)
          return postButton(form, { name: 'to', value, label, of: exitId, action: path, fields })
        },
      },
    ],
    empty: 'No exit is imported. In a sandbox its own exits are used.',
    labels: { first: 'First exits', next: 'More exits' },
    file: 'exits',
    cliEquivalents: () => [
      'bin/farebox exits list',
      'bin/farebox exits import FILE',
      'bin/farebox exits drain EXIT',
    ],
    act: {
      run: async (visit, typed) => {
        const exitId = typed.text('exit')
        const change = Object.values(stateChanges).find(({ to }) => to === typed.text('to'))
        if (change === undefined) return refused({ form: 'An exit can only be drained or resumed.' })
        const answer = await setExitState([exitId], change.to, visit.cause)
        if (answer.status === 'refused') return refused({ form: 'No exit has this id.' }, 409)
        const doneText = change.to === 'live' ? 'resumed' : 'drained'
        return goTo(
          path,
          answer.changed.length === 0 ? `It was already ${doneText}.` : `Exit ${exitId} is ${doneText}.`,
        )
      },
    },
  }),
]
