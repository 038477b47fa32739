import { isoTime } from '../../kernel/clock.ts'
import { positionToken } from '../../kernel/log-position.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { GroupHealth, GroupLag } from '../../platform/projections/projection-runner.ts'
import type { RebuildOptions, RebuildProgress, RebuildResult } from '../../platform/projections/rebuild.ts'
import { differenceText } from '../../platform/projections/rebuild-tables.ts'
import type { Assets } from '../../platform/ui/assets.ts'
import {
  choicesOf,
  emptyFormInput,
  type FormInput,
  keyField,
  type Problems,
  problemsOf,
} from '../../platform/ui/form.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import { createLongRuns, followingRuns, type LongRun, progressBar } from '../../platform/ui/long-runs.ts'
import {
  type ConsolePage,
  displayNameOf,
  goTo,
  type PersonVisit,
  personPage,
  refusedView,
  show,
} from '../../platform/ui/page.ts'
import { tableOf } from '../../platform/ui/table.ts'
import { type BadgeTone, countText, stateText, timeText } from '../../platform/ui/text.ts'
import { linkedText } from '../finance/index.ts'

const path = '/console/operator/projections'

/** The words for the states of a group. */
const states: Readonly<Record<GroupHealth['state'], readonly [string, BadgeTone]>> = {
  starting: ['follows another process', 'off'],
  rebuilding: ['is made anew', 'warn'],
  standby: ['another process folds it', 'off'],
  owner: ['folds', 'good'],
  poisoned: ['stopped at an event', 'bad'],
  superseded: ['a newer version folds it', 'off'],
  unreachable: ['the database does not answer', 'bad'],
}

const stateOf = (known: GroupHealth | null): Html => stateText(...states[known?.state ?? 'starting'])

/** The error that stops a group. Its event links to the resource. */
const errorOf = (known: GroupHealth | null, { visitor }: PersonVisit): Html =>
  linkedText(
    (known?.error ?? '').replace(/\bposition (\d{1,15})\b/, (_, position: string) =>
      positionToken(Number(position)),
    ),
    visitor.roles,
  )

type ProjectionServices = {
  readonly projections: { lag(): Promise<readonly GroupLag[]>; health(): readonly GroupHealth[] }
  /** The read models of a group, by name. */
  readonly modelsOf: (group: string) => readonly string[]
  readonly rebuilds: Pick<RebuildRuns, 'list' | 'start'>
  readonly island: Assets['island']
}

const rowsOf = async ({ lag, health }: ProjectionServices['projections']) => {
  const known = new Map(health().map((each) => [each.group, each]))
  return (await lag()).map((each) => ({ ...each, health: known.get(each.group) ?? null }))
}

const rebuildState = ({ state }: RebuildRun): Html => {
  switch (state.kind) {
    case 'runs': {
      const { progress } = state
      if (progress === null) return stateText('begins', 'warn')
      const { phase, position, target, eventsPerSecond, secondsLeft } = progress
      const remainingText =
        phase === 'fold' && secondsLeft !== null ? `, about ${countText(secondsLeft, 'second')} left` : ''
      return html`${stateText(phase, 'warn')} ${progressBar(position, target, `${position} of ${target}, ${eventsPerSecond} events a second${remainingText}`)}`
    }
    case 'failed':
      return html`${stateText('broke off', 'bad')}<br><small>${state.why}</small>`
    case 'done': {
      const { events, position, durationMs, compared, differences, exchanged } = state.result
      return html`${differences.length === 0 ? stateText(compared.length === 0 ? 'done' : 'the same', 'good') : stateText(countText(differences.length, 'difference'), 'bad')}
<br><small class="soft">${countText(events, 'event')} through ${positionToken(position)} in ${(durationMs / 1000).toFixed(1)} s; ${countText(compared.length, 'read model')} compared; ${exchanged ? 'the new tables are in their place' : 'the live tables stand as they were'}</small>
${differences.length === 0 ? nothing : html`<ul>${differences.map((difference) => html`<li><small>${differenceText(difference)}</small></li>\n`)}</ul>`}`
    }
    default:
      return state satisfies never
  }
}

const runsTable = (runs: readonly RebuildRun[], pagePath: string): Html => html`<h2>Recent rebuilds</h2>
${followingRuns(
  'rebuilds',
  pagePath,
  runs.some(({ state }) => state.kind === 'runs'),
  tableOf({
    caption: 'Rebuilds of this process, newest first',
    rows: runs,
    empty: html`<p>None yet.</p>`,
    columns: [
      { title: 'Group', head: true, cell: ({ group }) => html`<a href="${path}/${group}">${group}</a>` },
      { title: 'What', cell: ({ compareOnly }) => (compareOnly ? 'compared' : 'made anew') },
      { title: 'State', cell: rebuildState },
      { title: 'Began', cell: ({ startedAtMs }) => timeText(isoTime(startedAtMs)) },
      { title: 'By', cell: ({ by }) => by },
    ],
  }),
)}`

const list = async (
  { projections, rebuilds, island }: Omit<ProjectionServices, 'modelsOf'>,
  visit: PersonVisit,
) =>
  show({
    title: 'Projections',
    body: html`<p>Every table that pages and answers read is a fold of the log, in these groups.</p>
${tableOf({
  caption: 'How far each group of read tables is behind the log',
  rows: await rowsOf(projections),
  empty: html`<p>There is no group.</p>`,
  columns: [
    { title: 'Group', head: true, cell: ({ group }) => html`<a href="${path}/${group}">${group}</a>` },
    { title: 'State', cell: ({ health }) => stateOf(health) },
    { title: 'Events behind', number: true, cell: ({ positions }) => String(positions) },
    { title: 'Seconds behind', number: true, cell: ({ seconds }) => seconds.toFixed(1) },
    { title: 'What stops it', cell: ({ health }) => errorOf(health, visit) },
  ],
})}
<p class="soft">A group that cannot fold an event stops before it and goes on by itself once a version that can fold it runs.</p>
${runsTable(rebuilds.list(), path)}`,
    same: [
      'curl $INSIDE/metrics | grep farebox_projection',
      'npx farebox projections rebuild all --check',
      'npx farebox projections rebuild NAME',
    ],
    scripts: [island('live-parts')],
  })

const rebuildForm = (
  visit: PersonVisit,
  group: string,
  typed: FormInput,
  problems: Problems,
): Html => html`<h2>Make them anew</h2>
<p>The log is folded into new tables beside the live ones, the two are compared, and the new ones take their place in one moment. Pages and answers go on meanwhile, and nothing of what is true changes. It takes turns with the work of this process; for a log of many millions of events use the command on another machine.</p>
<form method="post" action="${path}/${group}" class="stack">
${keyField(visit.formKey)}
${choicesOf(
  {
    name: 'do',
    legend: 'What is done',
    choices: [
      { value: 'compare', label: 'Compare only', hint: 'the live tables stay' },
      { value: 'replace', label: 'Compare, and put the new ones in their place' },
    ],
    chosen: ['compare'],
    one: true,
  },
  typed,
  problems,
)}
<div class="acts"><button class="first">Fold the log anew for ${group}</button> <a href="${path}">Back</a></div>
</form>`

const groupView = async (
  { projections, modelsOf, rebuilds, island }: ProjectionServices,
  visit: PersonVisit,
  typed: FormInput,
  problems: Problems,
) => {
  const row = (await rowsOf(projections)).find(({ group }) => group === visit.params.group)
  if (row === undefined) throw refuse('not_found', 'no group of read tables has this name')
  const { group, health, positions, seconds } = row
  const pagePath = `${path}/${group}`
  const models = modelsOf(group)
  const stopped = health?.state === 'poisoned'
  return {
    title: `Read tables of ${group}`,
    body: html`${problemsOf(problems)}<dl class="facts">
<dt>State</dt><dd>${stateOf(health)}</dd>
<dt>Behind</dt><dd>${countText(positions, 'event')}, ${seconds.toFixed(1)} s</dd>
<dt>Read models</dt><dd>${models.join(', ') || 'none'}</dd>
</dl>
${
  health?.error
    ? html`<p class="said bad" role="alert">${errorOf(health, visit)}</p>
${stopped ? html`<p>The group stands before this event; what is later is not in its tables. It goes on by itself once a version of the program that can take the event runs. Making the tables anew with this version stops at the same event.</p>` : nothing}`
    : nothing
}
${models.length === 0 ? html`<p>It holds work beside what the log says, so it is not made anew.</p>` : rebuildForm(visit, group, typed, problems)}
${runsTable(
  rebuilds.list().filter((run) => run.group === group),
  pagePath,
)}`,
    same:
      models.length === 0
        ? []
        : [
            `npx farebox projections rebuild ${models.join(' ')} --check`,
            `npx farebox projections rebuild ${models.join(' ')}`,
          ],
    scripts: [island('live-parts')],
  }
}

const startRebuild = async (services: ProjectionServices, visit: PersonVisit, typed: FormInput) => {
  const view = await groupView(services, visit, typed, {})
  const mode = typed.text('do')
  if (mode !== 'compare' && mode !== 'replace')
    return refusedView(await groupView(services, visit, typed, { do: 'Choose what is done.' }))
  const group = visit.params.group ?? ''
  const isStarted = services.rebuilds.start({
    group,
    compareOnly: mode === 'compare',
    by: displayNameOf(visit.visitor),
    startedAtMs: visit.nowMs,
  })
  if (!isStarted)
    return refusedView(
      await groupView(services, visit, typed, {
        form: 'Another one runs in this process: wait for its end.',
      }),
      409,
    )
  return goTo(`${path}/${group}`, `${view.title}: begun. Below is how far it is.`)
}

/** The groups of read tables: how far they are behind, their errors, and their rebuilds. */
export const projectionPages = (services: ProjectionServices): readonly ConsolePage[] => [
  personPage({
    path,
    name: 'showProjections',
    summary: 'How far the read tables are behind the log, and what stops them',
    for: ['operator'],
    nav: { label: 'Projections', group: 'Operator' },
    show: (visit) => list(services, visit),
  }),
  personPage({
    path: `${path}/{group}`,
    name: 'rebuildProjection',
    summary: 'One group of read tables, made anew from the log and compared',
    for: ['operator'],
    confirmed: true,
    show: async (visit) => show(await groupView(services, visit, emptyFormInput, {})),
    act: { once: true, run: (visit, typed) => startRebuild(services, visit, typed) },
  }),
]

type RebuildRequest = {
  readonly group: string
  /** Compares the new tables with the live ones and drops the new ones. */
  readonly compareOnly: boolean
}

/** A rebuild of a group of read tables that a page started. */
export type RebuildRun = LongRun<RebuildRequest, RebuildProgress, RebuildResult>

/** Rebuilds all tables of a group. */
export type Rebuilder = (group: string, options: RebuildOptions) => Promise<RebuildResult | undefined>

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

export type RebuildRuns = ReturnType<typeof createRebuildRuns>
