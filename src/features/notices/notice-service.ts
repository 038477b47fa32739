import type pg from 'pg'
import {
  decideExpiration,
  decidePublication,
  type NoticeDraft,
  type NoticeRefusal,
  noticeFold,
  type ShownNotice,
} from '../../domain/notices/decide.ts'
import type { Cause } from '../../kernel/event.ts'
import type { AccountId, NoticeId } from '../../kernel/ids.ts'
import { noticeStream } from '../../kernel/streams.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import { handle, type Result } from '../../platform/commands/command.ts'

export type NoticeResult = Result<NoticeRefusal, ShownNotice>

/** Each change is an event with its actor. Both methods reject as the command runner does. */
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

/** A person of the account opened the notice in the dashboard. It is no longer `unread`, permanently. */
export const markNoticeRead = async (
  pool: pg.Pool,
  account: AccountId,
  noticeId: NoticeId,
  readAt: string,
): Promise<void> => {
  await pool.query(
    `insert into vault.notice_reads (account_id, notice_id, read_at)
     values ($1::text, $2::text, $3::timestamptz) on conflict do nothing`,
    [account, noticeId, readAt],
  )
}
