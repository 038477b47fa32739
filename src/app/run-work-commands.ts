import { retryWork } from '../features/console/index.ts'
import type { CliContext } from '../platform/cli/cli-context.ts'
import type { InputOf } from '../platform/cli/input.ts'
import { CliMisuse } from '../platform/cli/output.ts'
import { type Depth, depthOf, listDead } from '../platform/work/queue-operations.ts'
import type { QueueTable } from '../platform/work/queue-table.ts'
import type { deadInput, retryInput } from './app-commands.ts'
import { queues } from './queues.ts'

const queueNamed = (name: string): QueueTable => {
  const namedQueue = queues.find((queue) => queue.name === name)
  if (!namedQueue)
    throw new CliMisuse(
      `no queue is called "${name}"; there are ${queues.map(({ name }) => name).join(', ')}`,
    )
  return namedQueue
}

export const listQueues = async ({ pool, clock }: CliContext) => {
  const depths: Depth[] = []
  for (const queue of queues) depths.push(await depthOf(pool, queue, clock()))
  return { json: { queues: depths }, rows: depths }
}

export const dead = async ({ pool }: CliContext, { queue, limit }: InputOf<typeof deadInput>) => {
  const items = await listDead(pool, queueNamed(queue), limit)
  return { json: { items }, rows: items }
}

export const retry = async (
  context: CliContext,
  { queue, item, all = false }: InputOf<typeof retryInput>,
) => {
  if ((item !== undefined) === all) throw new CliMisuse('give either --item or --all')
  const retried = await retryWork(context, queueNamed(queue), item ?? null, context)
  return { json: { retried }, text: `${retried} are retried` }
}
