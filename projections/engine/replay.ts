import type { RecordedEvent } from '../../src/platform/eventstore/event.ts'
import type { EventLog, StoredEvent } from '../../src/platform/eventstore/port.ts'
import type { Session } from '../../src/platform/postgres/session.ts'
import { UndecodableEvent } from './feed.ts'
import { createFolding } from './folding.ts'
import type { ReadModel } from './read-model.ts'

/** Folds the log from its start into the empty tables of a schema. */
export type Replay = {
  readonly position: number
  readonly events: number
  /** The id of the event at `position`; null when none was folded there. */
  readonly lastEvent: string | null
  /** Folds everything up to and including a position of the log. Nothing past it is folded. */
  to(bound: number, onBatch?: () => void): Promise<void>
}

export type ReplayOptions = {
  readonly session: Session
  readonly schema: string
  readonly models: readonly ReadModel[]
  readonly log: Pick<EventLog, 'readAll'>
  readonly decode: (event: StoredEvent) => RecordedEvent
  readonly signal: AbortSignal
  /** Events of one batch; default 10,000: the more, the more often hot rows are written once for many events. */
  readonly batch?: number
  /** Rows held in memory; default 100,000. While all fit, none is ever selected. */
  readonly maxRows?: number
}

/** Reading the next events, folding these and writing the former ones overlap: that is two cores' worth of work. */
export const createReplay = (options: ReplayOptions): Replay => {
  const { log, signal, batch = 10_000 } = options
  const folding = createFolding(options)
  let position = 0
  let events = 0
  let lastEvent: string | null = null

  const decode = (stored: StoredEvent): RecordedEvent => {
    try {
      return options.decode(stored)
    } catch (cause) {
      throw new UndecodableEvent(stored, cause)
    }
  }

  const read = (after: number): Promise<readonly StoredEvent[]> => {
    const page = log.readAll(after, batch)
    // It is awaited later; a failure before that is not unhandled.
    page.catch(() => undefined)
    return page
  }

  const to = async (bound: number, onBatch?: () => void): Promise<void> => {
    if (bound <= position) return
    let page = read(position)
    for (;;) {
      signal.throwIfAborted()
      const stored = (await page).filter((event) => event.position <= bound)
      const last = stored.at(-1)
      if (!last) break
      const more = last.position < bound
      if (more) page = read(last.position)
      await folding.take(stored.map(decode))
      position = last.position
      lastEvent = last.id
      events += stored.length
      onBatch?.()
      if (!more) break
    }
    await folding.written()
    // What lies between the last event and the bound was read and is nothing.
    if (position < bound) lastEvent = null
    position = bound
  }

  return {
    get position() {
      return position
    },
    get events() {
      return events
    },
    get lastEvent() {
      return lastEvent
    },
    to,
  }
}
