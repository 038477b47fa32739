import type { GroupHealth } from '../../../projections/engine/runner.ts'
import { type Html, html, nothing } from '../../platform/pages/html.ts'
import { type Look, stateText } from '../customer/words.ts'
import { tableOf } from '../frame/table.ts'
import { countText } from '../frame/text.ts'
import { type ConsolePage, personPage, show } from '../pages/page.ts'
import type { OperatorDeps } from './deps.ts'

/** What a state of a group comes to, in words. */
const states: Readonly<Record<GroupHealth['state'], readonly [string, Look]>> = {
  starting: ['follows another process', 'off'],
  rebuilding: ['is made anew', 'warn'],
  standby: ['another process folds it', 'off'],
  owner: ['folds', 'good'],
  poisoned: ['stopped at an event', 'bad'],
  superseded: ['a newer version folds it', 'off'],
  unreachable: ['the database does not answer', 'bad'],
}

const stateOf = (known: GroupHealth | null): Html => stateText(...states[known?.state ?? 'starting'])

const projections = async ({ projections: { lag, health } }: OperatorDeps) => {
  const known = new Map(health().map((each) => [each.group, each]))
  const rows = (await lag()).map((each) => ({ ...each, health: known.get(each.group) ?? null }))
  return show({
    title: 'Projections',
    body: html`<p>Every table that pages and answers read is a fold of the log, in these groups.</p>
${tableOf({
  caption: 'How far each group of read tables is behind the log',
  rows,
  empty: html`<p>There is no group.</p>`,
  columns: [
    { title: 'Group', head: true, cell: ({ group }) => group },
    {
      title: 'State',
      cell: ({ health: known }) => stateOf(known),
    },
    { title: 'Events behind', number: true, cell: ({ positions }) => String(positions) },
    { title: 'Seconds behind', number: true, cell: ({ seconds }) => seconds.toFixed(1) },
    { title: 'What stops it', cell: ({ health: known }) => known?.error ?? '' },
  ],
})}
<p class="soft">A group that cannot fold an event stops at it and goes on by itself once a version that can fold it runs. Tables are made anew, and compared, by the command below.</p>`,
    same: [
      'curl $INSIDE/metrics | grep farebox_projection',
      'npx farebox projections rebuild all --check',
      'npx farebox projections rebuild NAME',
    ],
  })
}

const settings = async (deps: OperatorDeps) => {
  const all = deps.settings()
  const wrong = all.filter(({ problem }) => problem !== null)
  return show({
    title: 'Settings',
    body: html`${
      wrong.length === 0
        ? nothing
        : html`<p class="said bad">${countText(wrong.length, 'setting')} not taken: ${wrong.map(({ name }) => name).join(', ')}.</p>`
    }
<p>What is in force in this process. Settings are changed in its environment, and hold from the next start on; secrets are not shown.</p>
${tableOf({
  caption: 'Settings in force',
  rows: all,
  empty: html`<p>There is no setting.</p>`,
  columns: [
    {
      title: 'Setting',
      head: true,
      cell: ({ name, help }) => html`<code>${name}</code><br><small>${help}</small>`,
    },
    {
      title: 'In force',
      cell: ({ value }) =>
        value === null ? html`<span class="soft">none</span>` : html`<code>${value}</code>`,
    },
    { title: 'From', cell: ({ source }) => source },
  ],
})}`,
    same: ['npx farebox settings', 'npx farebox doctor'],
  })
}

/** How the service itself stands. */
export const systemPages = (deps: OperatorDeps): readonly ConsolePage[] => [
  personPage({
    path: '/console/operator/projections',
    name: 'showProjections',
    summary: 'How far the read tables are behind the log',
    for: ['operator'],
    nav: { label: 'Projections', group: 'Operator' },
    show: () => projections(deps),
  }),
  personPage({
    path: '/console/operator/settings',
    name: 'showSettings',
    summary: 'The settings that are in force, without secrets',
    for: ['operator'],
    nav: { label: 'Settings', group: 'Operator' },
    show: () => settings(deps),
  }),
]
