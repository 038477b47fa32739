import type { Fold } from '../../platform/eventstore/fold.ts'
import type { NoticeEvent, NoticePublished } from './events.ts'

/** Null before it is published. */
export type NoticeState = {
  readonly notice: NoticePublished['data']
  /** When it was expired by hand, ISO 8601; null: it was not. */
  readonly expiredAt: string | null
} | null

/** The state of `notice-{id}`: two events at most, so it is never snapshotted. */
export const noticeFold: Fold<NoticeState, NoticeEvent> = {
  name: 'notice',
  version: 1,
  initial: null,
  evolve: (state, event) => {
    if (event.type === 'NoticePublished') return { notice: event.data, expiredAt: null }
    if (!state) throw new Error(`${event.type} on a notice that was never published`)
    return { ...state, expiredAt: event.data.expiredAt }
  },
}
