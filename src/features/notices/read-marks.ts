import type pg from 'pg'
import type { AccountId, NoticeId } from '../../kernel/ids.ts'

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
