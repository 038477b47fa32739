import type { NoticeId } from '../../kernel/ids.ts'
import type { CommandRunner } from '../../platform/eventstore/commands/command.ts'
import { handle, type Result } from '../../platform/eventstore/commands/handle.ts'
import type { Cause } from '../../platform/eventstore/event.ts'
import { noticeStream } from '../../terms/streams.ts'
import {
  decideExpiration,
  decidePublication,
  type NoticeDraft,
  type NoticeRefusal,
  type ShownNotice,
} from './decide.ts'
import { noticeFold } from './fold.ts'

export type NoticeResult = Result<NoticeRefusal, ShownNotice>

/** Every notice is an event with its actor. Both reject as the command runner does. */
export type Notices = {
  /** Refusals: `invalid_notice`, `already_published`. */
  publish(draft: NoticeDraft, cause: Cause): Promise<NoticeResult>
  /** Refusal: `not_found`. */
  expire(noticeId: NoticeId, cause: Cause): Promise<NoticeResult>
}

export const createNotices = ({ runner }: { readonly runner: CommandRunner }): Notices => {
  const noticeRef = (noticeId: NoticeId) => ({ stream: noticeStream(noticeId), fold: noticeFold })
  return {
    publish: (draft, cause) =>
      handle(
        runner,
        { ...cause, name: 'publish-notice' },
        noticeRef(draft.noticeId as NoticeId),
        (state, { nowMs }) => decidePublication(state, draft, nowMs),
      ),
    expire: (noticeId, cause) =>
      handle(runner, { ...cause, name: 'expire-notice' }, noticeRef(noticeId), (state, { nowMs }) =>
        decideExpiration(state, nowMs),
      ),
  }
}
