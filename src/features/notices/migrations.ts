import type { Migrations } from '../../platform/postgres/migrate.ts'

/**
 * Which accounts opened which notices. The mark belongs to the account and is set from the dashboard, never by a key
 * (docs/reference/api.md, "Webhooks and notices"). It is a table and no event: auditors do not need it, and it must be
 * erasable with the account.
 */
export const migrations: Migrations = {
  '1001_notice_reads': `
    create table vault.notice_reads (
      account_id text not null,
      notice_id text not null,
      read_at timestamptz not null,
      primary key (account_id, notice_id)
    );
  `,
}
