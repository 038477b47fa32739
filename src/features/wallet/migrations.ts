import type { Migrations } from '../../platform/postgres/migrate.ts'

/**
 * E-mails about low balances, one permanent row for each fall below the threshold, so that a rebuild sends no e-mail
 * twice. `position` is that of the transaction in the log of `lineage` (engine.checkpoints).
 */
export const migrations: Migrations = {
  '4930_low_balance_mails': `
    create table work.low_balance_mails (
      transaction_id text collate "C" primary key,
      account_id text not null,
      position bigint not null,
      lineage uuid not null,
      threshold_micros bigint not null,
      status text not null default 'pending',
      attempts integer not null default 0,
      due_at timestamptz not null,
      finished_at timestamptz,
      result text
    );
    create index low_balance_mails_taken on work.low_balance_mails (lineage, position);
    select work.add_queue('low-balance-mails', 'work.low_balance_mails', 'account_id');
  `,
}
