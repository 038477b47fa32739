import type pg from 'pg'
import type { AccountId, NoticeId } from '../../kernel/ids.ts'

/** Somebody of the account opened the notice in the dashboard: it is not `unread` any more, for ever. */
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
