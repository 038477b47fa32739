import type pg from 'pg'
import type { Cause } from '../../kernel/event.ts'
import { refuse } from '../../platform/http/errors.ts'
import { type FormInput, type Problems, problemsOf } from '../../platform/ui/form.ts'
import type { View } from '../../platform/ui/frame.ts'
import { html, nothing } from '../../platform/ui/html.ts'
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
import { countTooLate, type DeadItem, depthOf, listDead } from '../../platform/work/queue-operations.ts'
import type { QueueTable } from '../../platform/work/queue-table.ts'
import { readFutureTime } from '../finance/index.ts'
import type { People } from '../sign-in/index.ts'

const pathOf = (name: string): string => `/console/operator/queues/${name}`

type QueueReads = { readonly pool: pg.Pool; readonly queues: readonly QueueTable[] }

const list = async ({ pool, queues }: QueueReads, { nowMs }: PersonVisit) => {
  const depths = []
  for (const queue of queues)
    depths.push({ ...(await depthOf(pool, queue, nowMs)), late: await countTooLate(pool, queue, nowMs) })
  const future = await readFutureTime(pool, nowMs)
  return show({
    title: 'Queues',
    body: html`${future === null ? nothing : html`<p>${stateText('time', 'warn')} ${future}.</p>`}
${tableOf({
  caption: 'What waits to be done, and what was given up',
  rows: depths,
  empty: html`<p>There is no queue.</p>`,
  columns: [
    { title: 'Queue', head: true, cell: ({ queue }) => html`<a href="${pathOf(queue)}">${queue}</a>` },
    { title: 'Waiting', number: true, cell: ({ waiting }) => String(waiting) },
    { title: 'Due', number: true, cell: ({ due }) => String(due) },
    { title: 'Oldest due', cell: ({ oldestDueAt }) => timeText(oldestDueAt, 'none') },
    {
      title: 'Due too late',
      number: true,
      cell: ({ late }) => (late === 0 ? '0' : stateText(String(late), 'bad')),
    },
    { title: 'Owners at work', number: true, cell: ({ owners }) => String(owners) },
    {
      title: 'Given up',
      cell: ({ dead }) => (dead === 0 ? stateText('none', 'good') : stateText(String(dead), 'bad')),
    },
  ],
})}`,
    same: ['npx farebox work queues'],
  })
}

/** @throws not_found */
const queueOf = (queues: readonly QueueTable[], { params }: PersonVisit): QueueTable => {
  const found = queues.find(({ name }) => name === params.id)
  if (found === undefined) throw refuse('not_found', 'no queue has this name')
  return found
}

const keyText = ({ finishedAt, item }: DeadItem): string => `${finishedAt}_${item}`

const keyOf = (text: string | null): { readonly finishedAt: string; readonly item: string } | null => {
  const [, finishedAt = '', item = ''] =
    /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)_([^\p{C}]{1,300})$/u.exec(text ?? '') ?? []
  return finishedAt === '' || Number.isNaN(Date.parse(finishedAt)) ? null : { finishedAt, item }
}

const queueView = async (
  { pool, queues }: QueueReads,
  visit: PersonVisit,
  problems: Problems,
): Promise<View> => {
  const queue = queueOf(queues, visit)
  const before = visit.query.get('before')
  const after = keyOf(before)
  const found = await listDead(pool, queue, pageRows + 1, after)
  const { rows, next } = pagedOf(found, keyText)
  const queuePath = pathOf(queue.name)
  return {
    title: `Queue ${queue.name}`,
    acts:
      rows.length === 0
        ? nothing
        : html`<form method="post" action="${queuePath}"><button name="all" value="yes">Try all again</button></form>`,
    body: html`${problemsOf(problems)}
${tableOf({
  caption: 'What was given up, the latest first',
  rows,
  empty: html`<p>Nothing was given up.</p>`,
  columns: [
    { title: 'Item', head: true, cell: ({ item }) => html`<code>${item}</code>` },
    { title: 'Owner', cell: ({ owner }) => owner },
    { title: 'Attempts', number: true, cell: ({ attempts }) => String(attempts) },
    { title: 'Given up', cell: ({ finishedAt }) => timeText(finishedAt) },
    { title: 'Why', cell: ({ result }) => result ?? '' },
    {
      title: 'Act',
      cell: ({ item }) =>
        html`<form method="post" action="${queuePath}"><button name="item" value="${item}" aria-label="Try ${item} again">Try again</button></form>`,
    },
  ],
})}
${pagerOf(queuePath, {}, { before: after === null ? null : before, next })}`,
    same: [
      `npx farebox work dead --queue ${queue.name}`,
      `npx farebox work retry --queue ${queue.name} --item ITEM`,
      `npx farebox work retry --queue ${queue.name} --all`,
    ],
  }
}

/** Retries items that a queue gave up; null: all of them. Returns how many. */
export type RetryWork = (queue: QueueTable, items: readonly string[] | null, cause: Cause) => Promise<number>

type QueueServices = QueueReads & {
  readonly people: Pick<People, 'workRetryAsked'>
  readonly retryWork: RetryWork
}

const retry = async (services: QueueServices, visit: PersonVisit, typed: FormInput) => {
  const queue = queueOf(services.queues, visit)
  const item = typed.text('item') || null
  if ((item === null) !== (typed.text('all') === 'yes'))
    return refusedView(await queueView(services, visit, { form: 'Choose one item, or all of them.' }))
  const { subjectId: staffId, sessionId } = visit.visitor.session
  // Most queues are not part of the log. The log first records the person who requested the retry.
  const retryRequest = await services.people.workRetryAsked(
    { staffId, sessionId, queue: queue.name, item },
    visit.cause,
  )
  if (retryRequest.outcome === 'refused') throw refuse('not_found', 'no queue has this name')
  const retried = await services.retryWork(queue, item === null ? null : [item], visit.cause)
  return goTo(
    pathOf(queue.name),
    retried === 0 ? 'Nothing was left to try again.' : `${countText(retried, 'item')} tried again.`,
  )
}

/** The work queues: waiting items, items that were given up, and their retry. */
export const queuePages = (services: QueueServices): readonly ConsolePage[] => [
  personPage({
    path: '/console/operator/queues',
    name: 'listQueues',
    summary: 'What waits to be done, and what was given up',
    for: ['operator'],
    nav: { label: 'Queues', group: 'Operator' },
    show: (visit) => list(services, visit),
  }),
  personPage({
    path: '/console/operator/queues/{id}',
    name: 'showQueue',
    summary: 'What one queue has given up, and another try of it',
    for: ['operator'],
    show: async (visit) => show(await queueView(services, visit, {})),
    act: { run: (visit, typed) => retry(services, visit, typed) },
  }),
]

/** A setting with its source. Secrets are masked. */
export type ListedSetting = {
  readonly name: string
  readonly help: string
  readonly value: string | null
  readonly source: string
  readonly problem: string | null
}

const settingsView = (allSettings: readonly ListedSetting[]) => {
  const invalidSettings = allSettings.filter(({ problem }) => problem !== null)
  return show({
    title: 'Settings',
    body: html`${
      invalidSettings.length === 0
        ? nothing
        : html`<p class="said bad">${countText(invalidSettings.length, 'setting')} not taken: ${invalidSettings.map(({ name }) => name).join(', ')}.</p>`
    }
<p>What is in force in this process. Settings are changed in its environment, and hold from the next start on; secrets are not shown.</p>
${tableOf({
  caption: 'Settings in force',
  rows: allSettings,
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

/** The page of the service's settings. */
export const systemPages = ({
  settings,
}: {
  readonly settings: () => readonly ListedSetting[]
}): readonly ConsolePage[] => [
  personPage({
    path: '/console/operator/settings',
    name: 'showSettings',
    summary: 'The settings that are in force, without secrets',
    for: ['operator'],
    nav: { label: 'Settings', group: 'Operator' },
    show: async () => settingsView(settings()),
  }),
]
