import { positionToken } from '../../kernel/log-position.ts'
import { refuse } from '../../platform/http/errors.ts'
import { type readStoppedModels, stoppedText } from '../../platform/projections/checkpoint.ts'
import { differenceText } from '../../platform/projections/compare-tables.ts'
import type { GroupHealth, GroupLag } from '../../platform/projections/projection-runner.ts'
import type { RebuildOptions, RebuildProgress, RebuildResult } from '../../platform/projections/rebuild.ts'
import { choicesOf, formOf } from '../../platform/ui/form.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import {
  createLongRuns,
  type LongRun,
  progressBar,
  runStateOf,
  runsTable,
} from '../../platform/ui/long-runs.ts'
import {
  type ConsolePage,
  displayNameOf,
  goTo,
  operatorPage,
  type PersonVisit,
  refused,
} from '../../platform/ui/page.ts'
import { detailsOf, tableOf } from '../../platform/ui/table.ts'
import { type BadgeTone, countText, stateText } from '../../platform/ui/text.ts'
import { linkedText } from '../finance/index.ts'

const path = '/console/operator/projections'

/** The words for the states of a group. */
const states: Readonly<Record<GroupHealth['state'], readonly [string, BadgeTone]>> = {
  starting: ['follows another process', 'off'],
  rebuilding: ['rebuilding', 'warn'],
  standby: ['updated by another process', 'off'],
  owner: ['up to date', 'good'],
  poisoned: ['stopped at an event', 'bad'],
  superseded: ['updated by a newer version', 'off'],
  unreachable: ['database unreachable', 'bad'],
}

type GroupRow = GroupLag & { readonly health: GroupHealth | null; readonly stopped: readonly string[] }

const stateOf = ({ health, stopped }: GroupRow): Html =>
  stopped.length === 0
    ? stateText(...states[health?.state ?? 'starting'])
    : stateText(countText(stopped.length, 'stopped read model'), 'bad')

/** The errors that stop a group or its models. */
const errorsOf = ({ health, stopped }: GroupRow): readonly string[] => [
  ...stopped,
  ...(health?.error ? [health.error] : []),
]

/** An error. Its event links to the resource. */
const errorHtml = (error: string, { visitor }: PersonVisit): Html =>
  linkedText(
    error.replaceAll(/\bposition (\d{1,15})\b/g, (_, position: string) => positionToken(Number(position))),
    visitor.roles,
  )

const resultHtml = ({
  events,
  position,
  durationMs,
  compared,
  differences,
  exchanged,
}: RebuildResult): Html =>
  html`${differences.length === 0 ? stateText(compared.length === 0 ? 'done' : 'the same', 'good') : stateText(countText(differences.length, 'difference'), 'bad')}
<br><small class="soft">${countText(events, 'event')} through ${positionToken(position)} in ${(durationMs / 1000).toFixed(1)} s; ${countText(compared.length, 'read model')} compared; ${exchanged ? 'the new tables are live' : 'the live tables did not change'}</small>
${differences.length === 0 ? nothing : html`<ul>${differences.map((difference) => html`<li><small>${differenceText(difference)}</small></li>\n`)}</ul>`}`

const rebuildState = (run: RebuildRun): Html =>
  runStateOf(run, {
    running: ({ phase, position, target, eventsPerSecond, secondsLeft }) => {
      const remainingText =
        phase === 'fold' && secondsLeft !== null ? `, about ${countText(secondsLeft, 'second')} left` : ''
      return html`${stateText(phase, 'warn')} ${progressBar(position, target, `${position} of ${target}, ${eventsPerSecond} events per second${remainingText}`)}`
    },
    done: resultHtml,
  })

const rebuildsTable = (runs: readonly RebuildRun[], pagePath: string): Html => html`<h2>Recent rebuilds</h2>
${runsTable({
  id: 'rebuilds',
  path: pagePath,
  caption: 'Rebuilds of this process, newest first',
  runs,
  empty: 'None yet.',
  columns: [
    { title: 'Group', head: true, cell: ({ group }) => html`<a href="${path}/${group}">${group}</a>` },
    { title: 'Action', cell: ({ compareOnly }) => (compareOnly ? 'compare' : 'rebuild') },
    { title: 'State', cell: rebuildState },
  ],
})}`

/** The groups of read tables: how far they are behind, their errors, and their rebuilds. */
export const projectionPages = ({
  projections,
  stoppedModels,
  modelsOf,
  rebuilds,
}: {
  readonly projections: { lag(): Promise<readonly GroupLag[]>; health(): readonly GroupHealth[] }
  readonly stoppedModels: () => ReturnType<typeof readStoppedModels>
  /** The read models of a group, by name. */
  readonly modelsOf: (group: string) => readonly string[]
  readonly rebuilds: Pick<RebuildRuns, 'list' | 'start'>
}): readonly ConsolePage[] => {
  const groupRows = async (): Promise<readonly GroupRow[]> => {
    const healthByGroup = new Map(projections.health().map((each) => [each.group, each]))
    const [lags, stopped] = await Promise.all([projections.lag(), stoppedModels()])
    return lags.map((each) => ({
      ...each,
      health: healthByGroup.get(each.group) ?? null,
      stopped: stopped.filter(({ group }) => group === each.group).map(stoppedText),
    }))
  }

  /** @throws not_found */
  const groupOf = async ({ params }: PersonVisit) => {
    const row = (await groupRows()).find(({ group }) => group === params.group)
    if (row === undefined) throw refuse('not_found', 'no group of read tables has this name')
    return row
  }

  const rebuildForm = ({ form }: PersonVisit, group: string): Html => html`<h2>Rebuild</h2>
<p>This builds new tables from the log, compares them with the live ones, and can replace those in one step. Pages and the API stay available. The rebuild yields to other work of this process. For a log of many millions of events, use the command on another machine.</p>
${formOf(form, {
  fields: [
    choicesOf(
      {
        name: 'do',
        legend: 'Action',
        choices: [
          { value: 'compare', label: 'Compare only', hint: 'the live tables do not change' },
          { value: 'replace', label: 'Compare and replace the live tables' },
        ],
        chosen: ['compare'],
        one: true,
      },
      form,
    ),
  ],
  submit: `Rebuild ${group}`,
  back: path,
})}`

  return [
    operatorPage({
      path,
      name: 'showProjections',
      summary: 'The delay of the read tables behind the log, and their errors',
      show: async (visit) => ({
        title: 'Projections',
        body: html`<p>Pages and the API read tables that are computed from the log, in these groups.</p>
${tableOf({
  caption: 'Groups of read tables and their lag behind the log',
  rows: await groupRows(),
  columns: [
    { title: 'Group', head: true, cell: ({ group }) => html`<a href="${path}/${group}">${group}</a>` },
    { title: 'State', cell: stateOf },
    { title: 'Events behind', number: true, cell: ({ positions }) => positions },
    { title: 'Seconds behind', number: true, cell: ({ seconds }) => seconds.toFixed(1) },
    { title: 'Error', cell: (row) => html`${errorsOf(row).map((error) => errorHtml(error, visit))}` },
  ],
})}
<p class="soft">A read model that cannot process an event is stopped, and the others of its group continue. Requests that need it are answered 503. A version that can process the event rebuilds it when it starts.</p>
${rebuildsTable(rebuilds.list(), path)}`,
        cliEquivalents: [
          'curl $INSIDE/metrics | grep farebox_projection',
          'bin/farebox projections rebuild all --check',
          'bin/farebox projections rebuild NAME',
        ],
        islands: ['live-parts'],
      }),
    }),
    operatorPage({
      path: `${path}/{group}`,
      name: 'rebuildProjection',
      summary: 'One group of read tables, rebuilt from the log and compared',
      confirmed: true,
      show: async (visit) => {
        const row = await groupOf(visit)
        const { group, health, positions, seconds } = row
        const models = modelsOf(group)
        const stopped = health?.state === 'poisoned'
        return {
          title: `Read tables of ${group}`,
          body: html`${detailsOf([
            ['State', stateOf(row)],
            ['Behind', `${countText(positions, 'event')}, ${seconds.toFixed(1)} s`],
            ['Read models', models.join(', ') || 'none'],
          ])}
${errorsOf(row).map((error) => html`<p class="message bad" role="alert">${errorHtml(error, visit)}</p>`)}
${stopped ? html`<p>The group has stopped before this event; its tables contain no later events. It continues when a version that can process the event runs. A rebuild with this version stops at the same event.</p>` : nothing}
${models.length === 0 ? html`<p>Cannot be rebuilt: it also stores state that is not in the log.</p>` : rebuildForm(visit, group)}
${rebuildsTable(
  rebuilds.list().filter((run) => run.group === group),
  `${path}/${group}`,
)}`,
          cliEquivalents:
            models.length === 0
              ? []
              : [
                  `bin/farebox projections rebuild ${models.join(' ')} --check`,
                  `bin/farebox projections rebuild ${models.join(' ')}`,
                ],
          islands: ['live-parts'],
        }
      },
      act: {
        once: true,
        run: async (visit, typed) => {
          const { group } = await groupOf(visit)
          const mode = typed.text('do')
          if (mode !== 'compare' && mode !== 'replace') return refused({ do: 'Choose an action.' })
          const isStarted = rebuilds.start({
            group,
            compareOnly: mode === 'compare',
            by: displayNameOf(visit.visitor),
            startedAtMs: visit.nowMs,
          })
          return isStarted
            ? goTo(`${path}/${group}`, `The rebuild of ${group} has started. Its progress is shown below.`)
            : refused({ form: 'Another rebuild is running in this process. Wait for its end.' }, 409)
        },
      },
    }),
  ]
}

type RebuildRequest = {
  readonly group: string
  /** Compares the new tables with the live ones and drops the new ones. */
  readonly compareOnly: boolean
}

/** A rebuild of a group of read tables that a page started. */
type RebuildRun = LongRun<RebuildRequest, RebuildProgress, RebuildResult>

/** Rebuilds all tables of a group. */
type Rebuilder = (group: string, options: RebuildOptions) => Promise<RebuildResult | undefined>

/** Rebuilds that pages start, one at a time. An aborted rebuild does not change the live tables. */
export const createRebuildRuns = (rebuilder: Rebuilder) => {
  const { list, start, stop } = createLongRuns<RebuildRequest, RebuildProgress, RebuildResult>()
  return {
    list,
    stop,
    /** Starts a rebuild without waiting for its end. False while another one runs, and after `stop`. */
    start: (rebuildRequest: RebuildRequest & Pick<RebuildRun, 'by' | 'startedAtMs'>): boolean =>
      start(rebuildRequest, async (on) => {
        const result = await rebuilder(rebuildRequest.group, {
          compareOnly: rebuildRequest.compareOnly,
          ...on,
        })
        if (result === undefined) throw new Error('it has no tables')
        return result
      }) !== null,
  }
}

type RebuildRuns = ReturnType<typeof createRebuildRuns>
