import { laterOf } from '../../domain/finance/entries.ts'
import type { Calendar } from '../../kernel/calendar.ts'
import { type Clock, isoTime, maxAheadMs } from '../../kernel/clock.ts'
import { positionToken } from '../../kernel/log-position.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import { instantText, type Moment, momentOf, type TypedMoment } from './input-forms.ts'

/**
 * A moment that the log has not reached. It is refused, because its answer would change later. An answer as of a position
 * is permanent; one as of a time, after its month is cut off: until then, lines of statements may be dated before it.
 */
export class MomentPastHead extends Error {
  override readonly name = 'MomentPastHead'
}

/** @throws MomentPastHead for a position after `head` and for an instant after `nowMs` */
export const refuseMomentPastHead = (moment: Moment, head: number, nowMs: number): void => {
  if (moment.kind === 'position' && moment.position > head)
    throw new MomentPastHead(
      `position ${positionToken(moment.position)} is past the end of the log, which is at ${positionToken(head)}; left out, all that is there by now is shown`,
    )
  if (moment.kind === 'time' && moment.atMs > nowMs)
    throw new MomentPastHead(
      `${new Date(moment.atMs).toISOString()} is still to come: it is ${isoTime(nowMs)}; left out, all that is there by now is shown`,
    )
}

/** Finds positions. `head` is the last position of an answer; the journal must have passed it. */
export type Moments = {
  /** The last position at or before the moment; 0 if there is none. @throws MomentPastHead */
  atOrBefore(moment: TypedMoment, head: number): Promise<number>
  /** The last position before the moment, which bounds a half-open range. @throws MomentPastHead */
  before(moment: TypedMoment, head: number): Promise<number>
  /** Accounting time as of a position: ISO 8601 UTC; null before the first event. */
  timeAt(position: number): Promise<string | null>
}

const pageSize = 1000

/** An event's position, and accounting time as of it. */
type Point = { readonly position: number; readonly at: string }

/**
 * Accounting time is the running maximum of `recordedAt` in log order, so it never decreases. The journal stores where
 * each second of it begins. From there the log is read to the exact millisecond.
 */
export const createMoments = (dependencies: {
  readonly db: Db
  readonly log: Pick<EventLog, 'readAll'>
  readonly clock: Clock
  readonly calendar: Calendar
}): Moments => {
  /** The last event up to `head` with accounting time up to `limit` (null: any). Starts at a second's first event. */
  const scan = async (from: Point, limit: string | null, head: number): Promise<Point> => {
    let last = from
    for (;;) {
      const page = await dependencies.log.readAll(last.position, pageSize)
      for (const { position, metadata } of page) {
        const at = laterOf(last.at, (JSON.parse(metadata) as { recordedAt: string }).recordedAt)
        if (position > head || (limit !== null && at > limit)) return last
        last = { position, at }
      }
      if (page.length < pageSize) return last
    }
  }

  const secondsUpTo = (position: number) =>
    dependencies.db.selectFrom('read.journal_seconds').selectAll().where('position', '<=', position).limit(1)

  const atOrBeforeMs = async (atMs: number, head: number): Promise<number> => {
    const limit = instantText(atMs)
    const second = await secondsUpTo(head).where('at', '<=', limit).orderBy('at', 'desc').executeTakeFirst()
    return second ? (await scan(second, limit, head)).position : 0
  }

  return {
    atOrBefore: async (typed, head) => {
      const moment = momentOf(typed, dependencies.calendar)
      refuseMomentPastHead(moment, head, dependencies.clock())
      return moment.kind === 'position' ? moment.position : atOrBeforeMs(moment.atMs, head)
    },
    before: async (typed, head) => {
      const moment = momentOf(typed, dependencies.calendar)
      refuseMomentPastHead(moment, head + 1, dependencies.clock())
      return moment.kind === 'position'
        ? Math.max(0, moment.position - 1)
        : atOrBeforeMs(moment.atMs - 1, head)
    },
    timeAt: async (position) => {
      const second = await secondsUpTo(position).orderBy('position', 'desc').executeTakeFirst()
      return second ? (await scan(second, null, position)).at : null
    },
  }
}

/**
 * A warning if the log has events that were recorded while the clocks of server and Postgres were ahead, and their time
 * is still in the future; else null. Read from accounting time, which is the latest recording time so far.
 */
export const readFutureTime = async (db: Db, nowMs: number): Promise<string | null> => {
  const { at } = (await db.selectFrom('read.journal_clock').select('at').executeTakeFirst()) ?? {}
  return at === undefined || Date.parse(at) <= nowMs + maxAheadMs
    ? null
    : `the log has events of the future, recorded up to ${at}, and it is ${isoTime(nowMs)} now: what follows is booked at ${at} until that time has come`
}
