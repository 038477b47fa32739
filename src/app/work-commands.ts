import type { Command } from 'commander'
import { retryWork } from '../features/console/index.ts'
import { type Cli, wholeNumber } from '../platform/cli/cli-context.ts'
import { CliMisuse, table } from '../platform/cli/output.ts'
import { type DeadItem, type Depth, depthOf, listDead } from '../platform/work/queue-operations.ts'
import type { QueueTable } from '../platform/work/queue-table.ts'
import { queues } from './queues.ts'

const names = queues.map(({ name }) => name).join(', ')

const queueNamed = (name: string): QueueTable => {
  const found = queues.find((queue) => queue.name === name)
  if (!found) throw new CliMisuse(`no queue is called "${name}"; there are ${names}`)
  return found
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

/** `work queues|dead|retry`: what waits to be done, what was given up, and another try of it. */
export const registerWork = (program: Command, cli: Cli): void => {
  const work = program.command('work')
  work
    .command('queues')
    .description('list the queues: what waits, what is due and since when, what was given up')
    .action(
      cli.action(async ({ pool, clock }) => {
        const depths: Depth[] = []
        for (const queue of queues) depths.push(await depthOf(pool, queue, clock()))
        return { json: { queues: depths }, text: depthText(depths) }
      }),
    )
  work
    .command('dead')
    .description('list what a queue has given up, the latest first')
    .requiredOption('--queue <name>', `one of ${names}`)
    .option('--limit <n>', 'how many at most', wholeNumber(1, 1_000), 100)
    .action(
      cli.action(async ({ pool }, options: { queue: string; limit: number }) => {
        const items = await listDead(pool, queueNamed(options.queue), options.limit)
        return { json: { items }, text: deadText(items) }
      }),
    )
  work
    .command('retry')
    .description('try again what a queue has given up, from now on and with all its attempts')
    .requiredOption('--queue <name>', `one of ${names}`)
    .option('--item <id...>', 'items as "work dead" lists them')
    .option('--all', 'everything that was given up, of webhooks the oldest 1000')
    .action(
      cli.action(async (context, options: { queue: string; item?: string[]; all?: boolean }) => {
        const { queue, item, all = false } = options
        if ((item !== undefined) === all) throw new CliMisuse('either --item or --all is needed')
        const retried = await retryWork(context, queueNamed(queue), item ?? null, context)
        return { json: { retried }, text: `${retried} are tried again` }
      }),
    )
}
