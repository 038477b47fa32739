import { randomUUID } from 'node:crypto'
import type { StreamName } from '../../src/kernel/streams.ts'
import { appendBytes, assertItems, refusalOf } from '../../src/platform/eventstore/append-guards.ts'
import { WrongExpectedRevision } from '../../src/platform/eventstore/errors.ts'
import type {
  Append,
  Appended,
  AppendItem,
  EventLog,
  Expected,
  ItemOutcome,
  StoredEvent,
} from '../../src/platform/eventstore/port.ts'

/** No answer arrives in the turn of its request, so that a caller in a loop lets others run too. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** An honest log in memory: the port's contract without a database. Everything is lost with it. */
export const createMemoryLog = (): EventLog => {
  const all: StoredEvent[] = []
  const streams = new Map<StreamName, StoredEvent[]>()
  const waiters = new Set<() => void>()
  const id = randomUUID()

  const placeOf = (event: StoredEvent): Appended => ({ revision: event.revision, position: event.position })
  const actualOf = (stream: StreamName): Expected => streams.get(stream)?.at(-1)?.revision ?? 'noStream'

  /** The first result of an append that was written before under the same ids, else null. */
  const writtenBefore = ({ stream, expected, events }: Append): Appended | null => {
    const first = expected === 'noStream' ? 0 : expected + 1
    const stored = streams.get(stream)?.slice(first, first + events.length) ?? []
    const same = stored.length === events.length && stored.every((event, at) => event.id === events[at]!.id)
    return same ? placeOf(stored.at(-1)!) : null
  }

  const write = (append: Append): Appended => {
    const refusal = refusalOf(append, appendBytes(append))
    if (refusal !== null) throw refusal
    const before = writtenBefore(append)
    if (before !== null) return before
    const { stream, expected, events } = append
    const actual = actualOf(stream)
    if (actual !== expected) throw new WrongExpectedRevision(stream, expected, actual)
    const own = streams.get(stream) ?? []
    streams.set(stream, own)
    for (const event of events) {
      const stored = { ...event, stream, revision: own.length, position: all.length + 1 }
      own.push(stored)
      all.push(stored)
    }
    return placeOf(own.at(-1)!)
  }

  /** Takes back what an item wrote beyond this length. */
  const cutTo = (length: number): void => {
    for (const { stream } of all.splice(length)) {
      const own = streams.get(stream)!
      own.pop()
      if (own.length === 0) streams.delete(stream)
    }
  }

  const writeItem = ({ appends }: AppendItem): ItemOutcome => {
    const length = all.length
    try {
      return { status: 'landed', appended: appends.map(write) }
    } catch (error) {
      cutTo(length)
      if (error instanceof WrongExpectedRevision)
        return { status: 'conflict', stream: error.stream, actual: error.actual, landed: [] }
      return { status: 'rejected', cause: error as Error, landed: [] }
    }
  }

  const wake = (): void => {
    for (const waiter of waiters) waiter()
  }

  const appendAll = async (items: readonly AppendItem[]): Promise<readonly ItemOutcome[]> => {
    assertItems(items)
    await turn()
    const outcomes = items.map(writeItem)
    wake()
    return outcomes
  }

  return {
    async append(stream, expected, events) {
      const [outcome] = await appendAll([{ appends: [{ stream, expected, events }] }])
      if (outcome!.status === 'landed') return outcome!.appended[0]!
      if (outcome!.status === 'conflict') throw new WrongExpectedRevision(stream, expected, outcome!.actual)
      throw outcome!.cause
    },
    appendAll,
    async *readStream(stream, from = 0) {
      await turn()
      yield* streams.get(stream)?.slice(from) ?? []
    },
    async readStreams(tails, limitEach = Number.POSITIVE_INFINITY) {
      await turn()
      const found = new Map<StreamName, readonly StoredEvent[]>()
      for (const { stream, from } of tails) {
        const events = streams.get(stream)?.slice(from, from + limitEach) ?? []
        if (events.length > 0) found.set(stream, events)
      }
      return found
    },
    async lastOf(stream) {
      await turn()
      const last = streams.get(stream)?.at(-1)
      return last ? placeOf(last) : null
    },
    async readAll(after, limit) {
      await turn()
      return all.slice(after, after + limit)
    },
    async readBefore(position, limit) {
      await turn()
      return all.slice(Math.max(0, position - 1 - limit), position - 1).reverse()
    },
    async eventAt(position) {
      await turn()
      return all[position - 1] ?? null
    },
    async *subscribeAll({ after, maxBatch = 1_000, signal }) {
      let position = after
      while (!signal.aborted) {
        const events = all.slice(position, position + maxBatch)
        if (events.length > 0) {
          position += events.length
          yield events
          continue
        }
        await new Promise<void>((resolve) => {
          const done = (): void => {
            waiters.delete(done)
            signal.removeEventListener('abort', done)
            resolve()
          }
          waiters.add(done)
          signal.addEventListener('abort', done)
        })
      }
    },
    async head() {
      await turn()
      return all.length
    },
    logId: async () => id,
    close: async () => {},
  }
}
