import { isoTime } from '../../../kernel/clock.ts'
import { positionToken } from '../../../kernel/log-position.ts'
import { plainDollars } from '../../../kernel/money.ts'
import type { Assets } from '../../../platform/ui/assets.ts'
import {
  emptyFormInput,
  type FormInput,
  fieldOf,
  keyField,
  type Problems,
  problemsOf,
} from '../../../platform/ui/form.ts'
import { type Html, html, nothing } from '../../../platform/ui/html.ts'
import { followingRuns, progressBar } from '../../../platform/ui/long-runs.ts'
import {
  type ConsolePage,
  displayNameOf,
  goTo,
  type PersonVisit,
  personPage,
  refusedView,
  show,
} from '../../../platform/ui/page.ts'
import { tableOf } from '../../../platform/ui/table.ts'
import { countText, stateText, timeText } from '../../../platform/ui/text.ts'
import { momentForms } from '../input-forms.ts'
import type { JournalHead } from '../journal.ts'
import { linkedText } from '../trail-pages.ts'
import { questionOf, type ReplayRun, type ReplayRuns } from './question.ts'

const path = '/console/finance/replay'
const shownDifferences = 20

const usd = (micros: bigint): string => plainDollars(micros).replace('-', '\u2212')

const differencesOf = ({ state }: ReplayRun): Html => {
  if (state.kind !== 'done') return nothing
  const { differences } = state.result
  const hiddenCount = differences.length - shownDifferences
  return html`<ul>${differences
    .slice(0, shownDifferences)
    .map(
      ({ book, account, logMicros, tableMicros }) =>
        html`<li><small><code>${account}</code> of ${book}: the log gives ${usd(logMicros)} USD, the tables have ${usd(tableMicros)}</small></li>\n`,
    )}${hiddenCount > 0 ? html`<li><small>and ${hiddenCount} more</small></li>` : null}</ul>`
}

const stateOf = (run: ReplayRun): Html => {
  const { state } = run
  switch (state.kind) {
    case 'runs': {
      const { progress } = state
      if (progress === null) return stateText('begins', 'warn')
      return html`${stateText('folds the log', 'warn')} ${progressBar(progress.done, progress.total, `${countText(progress.events, 'event')} so far`)}`
    }
    case 'failed':
      return html`${stateText('broke off', 'bad')}<br><small>${state.why}</small>`
    case 'done': {
      const { differences } = state.result
      return differences.length === 0
        ? stateText('the same', 'good')
        : html`${stateText(countText(differences.length, 'difference'), 'bad')}${differencesOf(run)}`
    }
    default:
      return state satisfies never
  }
}

type ReplayServices = {
  readonly journalHead: JournalHead
  readonly replays: ReplayRuns
  readonly island: Assets['island']
}

const view = (
  { replays, island }: Pick<ReplayServices, 'replays' | 'island'>,
  { formKey, query, visitor }: PersonVisit,
  typed: FormInput,
  problems: Problems,
) => {
  const runs = replays.list()
  const latest = runs[0]?.typed ?? ''
  const result = ({ state }: ReplayRun) => (state.kind === 'done' ? state.result : null)
  return {
    title: 'Replay',
    body: html`<p>Balances come from tables that follow the log. A replay trusts no table: it adds up every account from the events alone, and compares. It changes nothing.</p>
${problemsOf(problems)}
<form method="post" action="${path}" class="stack" novalidate>
${keyField(formKey)}
${fieldOf({ name: 'to', label: 'As of', hint: `Through the last event at or before it: ${momentForms}. Left empty: now.`, value: query.get('to') ?? '' }, typed, problems)}
<div class="acts"><button class="first">Replay the log and compare</button></div>
</form>
<h2>Replayed lately</h2>
${followingRuns(
  'replays',
  path,
  runs.some(({ state }) => state.kind === 'runs'),
  tableOf({
    caption: 'Replays of this process, newest first',
    rows: runs,
    empty: html`<p>None yet.</p>`,
    columns: [
      {
        title: 'As of',
        head: true,
        cell: ({ typed: rangeText }) => (rangeText === '' ? 'the end of the log' : rangeText),
      },
      { title: 'State', cell: stateOf },
      {
        title: 'Through',
        cell: (run) => {
          const done = result(run)
          return done === null ? '' : linkedText(positionToken(done.position), visitor.roles)
        },
      },
      { title: 'Events', number: true, cell: (run) => String(result(run)?.events ?? '') },
      { title: 'Entries', number: true, cell: (run) => String(result(run)?.entries ?? '') },
      { title: 'Accounts', number: true, cell: (run) => String(result(run)?.accounts ?? '') },
      { title: 'Began', cell: ({ startedAtMs }) => timeText(isoTime(startedAtMs)) },
      { title: 'By', cell: ({ by }) => by },
    ],
  }),
)}`,
    same: [
      `npx farebox ledger replay${latest === '' ? '' : ` --until ${latest}`}`,
      `npx farebox ledger trial-balance${latest === '' ? '' : ` --as-of ${latest}`}`,
    ],
    scripts: [island('live-parts')],
  }
}

const startReplay = async (services: ReplayServices, visit: PersonVisit, typed: FormInput) => {
  const head = await services.journalHead()
  const question = questionOf(new URLSearchParams({ to: typed.text('to') }), head, visit.nowMs)
  if (Object.keys(question.problems).length > 0)
    return refusedView(view(services, visit, typed, question.problems))
  const until = 'asOf' in question.asked ? (question.asked.asOf ?? null) : null
  const replayRequest = {
    until,
    typed: question.typed.to,
    by: displayNameOf(visit.visitor),
    startedAtMs: visit.nowMs,
  }
  if (services.replays.start(replayRequest, head) === null)
    return refusedView(
      view(services, visit, typed, { form: 'Another replay runs in this process: wait for its end.' }),
      409,
    )
  return goTo(path, 'The replay has begun. Below is how far it is.')
}

/** Balances from the log alone, compared with the tables. */
export const replayPages = (services: ReplayServices): readonly ConsolePage[] => [
  personPage({
    path,
    name: 'replayBooks',
    summary: 'Adds up the log anew and compares it with the balances that pages show',
    for: ['finance'],
    nav: { label: 'Replay', group: 'Finance' },
    show: async (visit) => show(view(services, visit, emptyFormInput, {})),
    act: { once: true, run: (visit, typed) => startReplay(services, visit, typed) },
  }),
]
