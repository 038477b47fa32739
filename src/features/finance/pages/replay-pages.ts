import type { Calendar } from '../../../kernel/calendar.ts'
import { positionToken } from '../../../kernel/log-position.ts'
import { plainDollars } from '../../../kernel/money.ts'
import { fieldOf, formOf } from '../../../platform/ui/form.ts'
import { type Html, html } from '../../../platform/ui/html.ts'
import { foldProgress, resultOf, runStateOf, runsTable } from '../../../platform/ui/long-runs.ts'
import { type ConsolePage, displayNameOf, financePage, goTo, refused } from '../../../platform/ui/page.ts'
import { countText, stateText } from '../../../platform/ui/text.ts'
import { momentForms, momentOf } from '../input-forms.ts'
import type { JournalHead } from '../journal.ts'
import type { ReplayRun, ReplayRuns } from '../long-runs.ts'
import type { ReplayCheck } from '../replay.ts'
import { linkedText } from '../trail-pages.ts'
import { parseReportQuery } from './report-parts.ts'

const path = '/console/finance/replay'
const shownDifferences = 20

const usd = (micros: bigint): string => plainDollars(micros).replace('-', '\u2212')

const differencesOf = ({ differences }: ReplayCheck): Html => {
  const hiddenCount = differences.length - shownDifferences
  return html`<ul>${differences
    .slice(0, shownDifferences)
    .map(
      ({ book, account, logMicros, tableMicros }) =>
        html`<li><small><code>${account}</code> of ${book}: ${usd(logMicros)} USD in the log, ${usd(tableMicros)} in the tables</small></li>\n`,
    )}${hiddenCount > 0 ? html`<li><small>and ${hiddenCount} more</small></li>` : null}</ul>`
}

const stateOf = (run: ReplayRun): Html =>
  runStateOf(run, {
    running: foldProgress,
    done: (result) =>
      result.differences.length === 0
        ? stateText('the same', 'good')
        : html`${stateText(countText(result.differences.length, 'difference'), 'bad')}${differencesOf(result)}`,
  })

/** Balances from the log alone, compared with the tables. */
export const replayPages = ({
  journalHead,
  replays,
  calendar,
}: {
  readonly journalHead: JournalHead
  readonly replays: ReplayRuns
  readonly calendar: Calendar
}): readonly ConsolePage[] => [
  financePage({
    path,
    name: 'replayBooks',
    summary: 'Computes balances from the log and compares them with the tables',
    show: async ({ form, query, visitor }) => {
      const runs = replays.list()
      const latest = runs[0]?.typed ?? ''
      const count =
        (name: 'events' | 'entries' | 'accounts') =>
        (run: ReplayRun): number | null =>
          resultOf(run)?.[name] ?? null
      return {
        title: 'Replay',
        body: html`<p>Pages read balances from tables. A replay computes every balance from the events alone and compares the two. It changes nothing.</p>
${formOf(form, {
  fields: [
    fieldOf(
      {
        name: 'to',
        label: 'As of',
        hint: `Through the last event at or before it: ${momentForms}. Empty: now.`,
        value: query.get('to') ?? '',
      },
      form,
    ),
  ],
  submit: 'Replay and compare',
  action: path,
})}
<h2>Recent replays</h2>
${runsTable({
  id: 'replays',
  path,
  caption: 'Replays of this process, newest first',
  runs,
  empty: 'None yet.',
  columns: [
    { title: 'As of', head: true, cell: ({ typed }) => typed || 'the end of the log' },
    { title: 'State', cell: stateOf },
    {
      title: 'Through',
      cell: (run) => {
        const result = resultOf(run)
        return result && linkedText(positionToken(result.position), visitor.roles)
      },
    },
    { title: 'Events', number: true, cell: count('events') },
    { title: 'Entries', number: true, cell: count('entries') },
    { title: 'Accounts', number: true, cell: count('accounts') },
  ],
})}`,
        cliEquivalents: [
          `bin/farebox ledger replay${latest && ` --until ${latest}`}`,
          `bin/farebox ledger trial-balance${latest && ` --as-of ${latest}`}`,
        ],
        islands: ['live-parts'],
      }
    },
    act: {
      once: true,
      run: async ({ visitor, nowMs }, typed) => {
        const head = await journalHead()
        const query = new URLSearchParams({ to: typed.text('to') })
        const { range, problems, typed: texts } = parseReportQuery(query, head, { nowMs, calendar })
        if (Object.keys(problems).length > 0) return refused(problems)
        const run = replays.start(
          {
            until: 'asOf' in range && range.asOf ? momentOf(range.asOf, calendar) : null,
            typed: texts.to,
            by: displayNameOf(visitor),
            startedAtMs: nowMs,
          },
          head,
        )
        return run === null
          ? refused({ form: 'Another replay is running in this process. Wait for its end.' }, 409)
          : goTo(path, 'The replay has started. Its progress is shown below.')
      },
    },
  }),
]
