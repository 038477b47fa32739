import type { Migrations } from '../../platform/postgres/migrate.ts'

/**
 * Who opened which notice. It belongs to the account and is set from the dashboard, never by a key (docs/http-api.md,
 * "Webhooks and notices"). It is no fact that an auditor asks for, and it must be erasable with the account: a table,
 * no event.
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
