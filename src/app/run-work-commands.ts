import { retryWork } from '../features/console/index.ts'
import type { CliContext } from '../platform/cli/cli-context.ts'
import { CliMisuse, table } from '../platform/cli/output.ts'
import { type DeadItem, type Depth, depthOf, listDead } from '../platform/work/queue-operations.ts'
import type { QueueTable } from '../platform/work/queue-table.ts'
import { queues } from './queues.ts'

const queueNamed = (name: string): QueueTable => {
  const namedQueue = queues.find((queue) => queue.name === name)
  if (!namedQueue)
    throw new CliMisuse(
      `no queue is called "${name}"; there are ${queues.map(({ name }) => name).join(', ')}`,
    )
  return namedQueue
}

const depthText = (depths: readonly Depth[]): string =>
  table(depths, [
    { title: 'queue', value: ({ queue }) => queue },
    { title: 'waiting', value: ({ waiting }) => waiting, align: 'right' },
    { title: 'due', value: ({ due }) => due, align: 'right' },
    { title: 'oldest due', value: ({ oldestDueAt }) => oldestDueAt ?? '-' },
    { title: 'owners at work', value: ({ owners }) => owners, align: 'right' },
    { title: 'dead', value: ({ dead }) => dead, align: 'right' },
  ])

const deadText = (items: readonly DeadItem[]): string =>
  table(items, [
    { title: 'item', value: ({ item }) => item },
    { title: 'owner', value: ({ owner }) => owner },
    { title: 'attempts', value: ({ attempts }) => attempts, align: 'right' },
    { title: 'given up', value: ({ finishedAt }) => finishedAt },
    { title: 'why', value: ({ result }) => result ?? '-' },
  ])

export const listQueues = async ({ pool, clock }: CliContext) => {
  const depths: Depth[] = []
  for (const queue of queues) depths.push(await depthOf(pool, queue, clock()))
  return { json: { queues: depths }, text: depthText(depths) }
}

export const dead = async ({ pool }: CliContext, options: { queue: string; limit: number }) => {
  const items = await listDead(pool, queueNamed(options.queue), options.limit)
  return { json: { items }, text: deadText(items) }
}

export const retry = async (
  context: CliContext,
  options: { queue: string; item?: string[]; all?: boolean },
) => {
  const { queue, item, all = false } = options
  if ((item !== undefined) === all) throw new CliMisuse('either --item or --all is needed')
  const retried = await retryWork(context, queueNamed(queue), item ?? null, context)
  return { json: { retried }, text: `${retried} are tried again` }
}
