import type { StreamName } from '../../../terms/streams.ts'
import type { StoredEvent } from '../port.ts'
import { createAtMost } from './at-most.ts'
import { type ReadDeps, readPage } from './read-page.ts'

/** Most streams are shorter, so they take one call. */
const pageSize = 500

const tailsAtOnce = 32

export async function* readEvents(deps: ReadDeps, stream: StreamName, from = 0): AsyncGenerator<StoredEvent> {
  for (let next = from; ; next += pageSize) {
    const page = await readPage(deps, stream, { from: next, count: pageSize })
    yield* page
    if (page.length < pageSize) return
  }
}

const readTail = async (
  deps: ReadDeps,
  stream: StreamName,
  from: number,
  limit: number | undefined,
): Promise<readonly StoredEvent[]> => {
  if (limit !== undefined) return await readPage(deps, stream, { from, count: limit })
  const events: StoredEvent[] = []
  for await (const event of readEvents(deps, stream, from)) events.push(event)
  return events
}

/** The server reads one stream a call; the calls share a connection. */
export const readTails = async (
  deps: ReadDeps,
  tails: readonly { readonly stream: StreamName; readonly from: number }[],
  limitEach?: number,
): Promise<ReadonlyMap<StreamName, readonly StoredEvent[]>> => {
  const atMost = createAtMost(tailsAtOnce)
  const found = new Map<StreamName, readonly StoredEvent[]>()
  await Promise.all(
    tails.map(async ({ stream, from }) => {
      const events = await atMost(() => readTail(deps, stream, from, limitEach))
      if (events.length > 0) found.set(stream, events)
    }),
  )
  return found
}
