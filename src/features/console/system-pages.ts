import type pg from 'pg'
import { secondOf } from '../../kernel/clock.ts'
import type { Cause } from '../../kernel/event.ts'
import { refuse } from '../../platform/http/errors.ts'
import { createSharedRead } from '../../platform/postgres/batch-loader.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import { postButton } from '../../platform/ui/form.ts'
import { html, nothing } from '../../platform/ui/html.ts'
import { listOf, listPage } from '../../platform/ui/list.ts'
import { type ConsolePage, goTo, operatorPage, type PersonVisit, refused } from '../../platform/ui/page.ts'
import { type Column, countColumn, nameColumn, textColumn, timeColumn } from '../../platform/ui/table.ts'
import { countText, softText, stateText } from '../../platform/ui/text.ts'
import { countTooLate, type DeadItem, depthOf, listDead } from '../../platform/work/queue-operations.ts'
import type { QueueTable } from '../../platform/work/queue-table.ts'
import { readFutureTime } from '../finance/index.ts'
import type { People } from '../sign-in/index.ts'

const root = '/console/operator/queues'
const pathOf = (name: string): string => `${root}/${name}`

type QueueRow = Awaited<ReturnType<typeof depthOf>> & { readonly late: number }

const keyText = ({ finishedAt, item }: DeadItem): string => `${finishedAt}_${item}`

type DeadItemKey = { readonly finishedAt: string; readonly item: string }

const keyOf = (text: string | null): DeadItemKey | null => {
  const [, finishedAt = '', item = ''] =
    /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)_([^\p{C}]{1,300})$/u.exec(text ?? '') ?? []
  return finishedAt === '' || Number.isNaN(Date.parse(finishedAt)) ? null : { finishedAt, item }
}

/** Retries items that a queue gave up; null: all of them. Returns how many. */
type RetryWork = (queue: QueueTable, items: readonly string[] | null, cause: Cause) => Promise<number>

/** The work queues: waiting items, failed items, and their retry. */
export const queuePages = ({
  pool,
  db,
  queues,
  people,
  retryWork,
}: {
  readonly pool: pg.Pool
  readonly db: Db
  readonly queues: readonly QueueTable[]
  readonly people: Pick<People, 'workRetryAsked'>
  readonly retryWork: RetryWork
}): readonly ConsolePage[] => {
  /** @throws not_found */
  const queueOf = ({ params }: PersonVisit): QueueTable => {
    const found = queues.find(({ name }) => name === params.id)
    if (found === undefined) throw refuse('not_found', 'no queue has this name')
    return found
  }

  const readRows = createSharedRead(async (nowMs: number): Promise<readonly QueueRow[]> => {
    const rows = []
    for (const queue of queues)
      rows.push({ ...(await depthOf(pool, queue, nowMs)), late: await countTooLate(pool, queue, nowMs) })
    return rows
  })

  return [
    listPage(operatorPage, {
      path: root,
      name: 'listQueues',
      summary: 'Waiting and failed work, by queue',
      title: 'Queues',
      intro: async ({ nowMs }) => {
        const future = await readFutureTime(db, nowMs)
        return future === null ? nothing : html`<p>${stateText('time', 'warn')} ${future}.</p>`
      },
      caption: 'Waiting and failed items of each queue',
      rows: ({ nowMs }) => readRows(secondOf(nowMs)),
      columns: (_): readonly Column<QueueRow>[] => [
        nameColumn('Queue', ({ queue }) => ({ text: queue, href: pathOf(queue) })),
        countColumn('Waiting', ({ waiting }) => waiting),
        countColumn('Due', ({ due }) => due),
        timeColumn('Oldest due', ({ oldestDueAt }) => oldestDueAt, { none: 'none' }),
        {
          title: 'Overdue',
          number: true,
          value: ({ late }) => late,
          cell: ({ late }) => (late === 0 ? 0 : stateText(String(late), 'bad')),
        },
        countColumn('Active workers', ({ owners }) => owners),
        {
          title: 'Failed',
          value: ({ dead }) => dead,
          cell: ({ dead }) => (dead === 0 ? stateText('none', 'good') : stateText(String(dead), 'bad')),
        },
      ],
      empty: 'There are no queues.',
      cliEquivalents: () => ['bin/farebox work queues'],
    }),
    operatorPage({
      path: '/console/operator/queues/{id}',
      name: 'showQueue',
      summary: 'The failed items of one queue, and their retry',
      show: async (visit) => {
        const { form, path } = visit
        const queue = queueOf(visit)
        let isEmpty = true
        const items = await listOf(visit, {
          caption: 'Failed items, latest first',
          load: async (_, { after, limit }) => {
            const dead = await listDead(pool, queue, limit, after)
            isEmpty = dead.length === 0
            return dead
          },
          parseKey: keyOf,
          keyOf: keyText,
          empty: 'There are no failed items.',
          columns: (_) => [
            nameColumn('Item', ({ item }) => ({ text: item })),
            textColumn('Owner', ({ owner }) => owner, { place: 'minor' }),
            countColumn('Attempts', ({ attempts }) => attempts),
            timeColumn('Failed', ({ finishedAt }) => finishedAt),
            textColumn('Reason', ({ result }) => result, { place: 'plain' }),
            {
              title: 'Action',
              cell: ({ item }) =>
                postButton(form, { name: 'item', value: item, label: 'Retry', of: item, action: path }),
            },
          ],
        })
        return {
          title: `Queue ${queue.name}`,
          actions: isEmpty
            ? nothing
            : postButton(form, { name: 'all', value: 'yes', label: 'Retry all', action: path }),
          body: items.body,
          cliEquivalents: [
            `bin/farebox work dead --queue ${queue.name}`,
            `bin/farebox work retry --queue ${queue.name} --item ITEM`,
            `bin/farebox work retry --queue ${queue.name} --all`,
          ],
        }
      },
      act: {
        run: async (visit, typed) => {
          const queue = queueOf(visit)
          const item = typed.text('item') || null
          if ((item === null) !== (typed.text('all') === 'yes'))
            return refused({ form: 'Choose one item, or all of them.' })
          const { subjectId: staffId, sessionId } = visit.visitor.session
          // Most queues are not part of the log. The log first records the person who requested the retry.
          const retryRequest = await people.workRetryAsked(
            { staffId, sessionId, queue: queue.name, item },
            visit.cause,
          )
          if (retryRequest.outcome === 'refused') throw refuse('not_found', 'no queue has this name')
          const retried = await retryWork(queue, item === null ? null : [item], visit.cause)
          return goTo(
            pathOf(queue.name),
            retried === 0 ? 'There was nothing to retry.' : `${countText(retried, 'item')} queued again.`,
          )
        },
      },
    }),
  ]
}

/** A setting with its source. Secrets are masked. */
export type ListedSetting = {
  readonly name: string
  readonly help: string
  readonly value: string | null
  readonly source: string
  readonly problem: string | null
}

/** The page of the service's settings. */
export const systemPages = ({
  settings,
}: {
  readonly settings: () => readonly ListedSetting[]
}): readonly ConsolePage[] => [
  listPage(operatorPage, {
    path: '/console/operator/settings',
    name: 'showSettings',
    summary: 'The effective settings, without secrets',
    title: 'Settings',
    intro: () => {
      const invalid = settings().filter(({ problem }) => problem !== null)
      return html`${
        invalid.length === 0
          ? nothing
          : html`<p class="message bad">${countText(invalid.length, 'setting')} ignored: ${invalid.map(({ name }) => name).join(', ')}.</p>`
      }
<p>The effective settings of this process. Change them in its environment and restart it. Secrets are not shown.</p>`
    },
    filters: { source: { label: 'Source', hint: 'such as default' } },
    caption: 'Effective settings',
    search: 'Name or text',
    limit: 200,
    rows: (_, { source }) =>
      settings().filter((setting) => source === undefined || setting.source.includes(source)),
    columns: (_) => [
      {
        title: 'Setting',
        head: true,
        value: ({ name, help }) => `${name} ${help}`,
        cell: ({ name, help }) => html`<code>${name}</code><br><small>${help}</small>`,
      },
      {
        title: 'Value',
        value: ({ value }) => value,
        cell: ({ value }) => (value === null ? softText('none') : html`<code>${value}</code>`),
      },
      textColumn('Source', ({ source }) => source),
    ],
    empty: 'There are no settings.',
    cliEquivalents: () => ['bin/farebox settings', 'bin/farebox doctor'],
  }),
]
