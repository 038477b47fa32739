import { html, nothing } from '../../platform/pages/html.ts'
import { tableOf } from '../frame/table.ts'
import { countText } from '../frame/text.ts'
import { type ConsolePage, personPage, show } from '../pages/page.ts'
import type { OperatorDeps } from './deps.ts'

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

/** How the service itself is set up. */
export const systemPages = (deps: OperatorDeps): readonly ConsolePage[] => [
  personPage({
    path: '/console/operator/settings',
    name: 'showSettings',
    summary: 'The settings that are in force, without secrets',
    for: ['operator'],
    nav: { label: 'Settings', group: 'Operator' },
    show: () => settings(deps),
  }),
]
