import type { Migrations } from '../../platform/postgres/migrate.ts'

/**
 * Addresses may name a payer, so they are stored in the vault, never in an event. Work tables: which request creates an
 * invoice now; when a deposit is polled next, or when its polling ended (before its first poll, `due_at` is the time of
 * its opening); and when a gateway is polled for disputes.
 */
export const migrations: Migrations = {
  '0810_deposits': `
    create table vault.deposit_pages (
      deposit_id text primary key,
      return_url text not null,
      pay_url text
    );
    create table work.deposit_claims (
      deposit_id text primary key,
      claimed_until timestamptz not null
    );
    create table work.deposit_looks (
      deposit_id text primary key,
      looks integer not null,
      next_at timestamptz not null
    );
  `,
  '0811_dispute_looks': `
    create table work.dispute_looks (
      gateway_id text primary key,
      next_at timestamptz not null
    );
  `,
  // Polling that an earlier version ended is resumed by poll-schedule.ts if the deposit is still watched or not closed.
  '0812_looks_end': `
    alter table work.deposit_looks add column ended_at timestamptz;
    update work.deposit_looks set ended_at = '-infinity';
    create index deposit_looks_due on work.deposit_looks (next_at) where ended_at is null;
  `,
  // Older rows have no gateway and are processed together, as those of one gateway.
  '0813_looks_by_gateway': `
    alter table work.deposit_looks add column gateway_id text;
  `,
  // Null in older rows, until the first start after the upgrade signs them (src/app/adopt-commitments.ts).
  '1781_signed_pages': `
    alter table vault.deposit_pages add column signature bytea;
  `,
  // Two of the queues (src/platform/work/migrations.ts). Deposits of an early version have no gateway.
  '1413_looks_queue': `
    alter table work.deposit_looks rename column looks to attempts;
    alter table work.deposit_looks rename column next_at to due_at;
    alter table work.deposit_looks rename column ended_at to finished_at;
    alter table work.deposit_looks alter column attempts set default 0;
    alter table work.deposit_looks
      add column status text not null default 'pending', add column result text;
    update work.deposit_looks set status = 'done' where finished_at is not null;
    update work.deposit_looks set gateway_id = '' where gateway_id is null;
    alter table work.deposit_looks alter column gateway_id set not null;
    drop index work.deposit_looks_due;
    select work.add_queue('deposit-looks', 'work.deposit_looks', 'gateway_id');

    alter table work.dispute_looks rename column next_at to due_at;
    alter table work.dispute_looks
      add column status text not null default 'pending', add column attempts integer not null default 0,
      add column finished_at timestamptz, add column result text;
    select work.add_queue('dispute-looks', 'work.dispute_looks', 'gateway_id');
  `,
  /**
   * E-mails about failed top-ups, one permanent row for each, so that a rebuild sends no e-mail twice. `position` is
   * that of the failure in the log of `lineage` (engine.checkpoints).
   */
  '4940_topup_mails': `
    create table work.topup_mails (
      topup_id text collate "C" primary key,
      account_id text not null,
      position bigint not null,
      lineage uuid not null,
      status text not null default 'pending',
      attempts integer not null default 0,
      due_at timestamptz not null,
      finished_at timestamptz,
      result text
    );
    create index topup_mails_taken on work.topup_mails (lineage, position);
    select work.add_queue('topup-mails', 'work.topup_mails', 'account_id');
  `,
  // A top-up that is paid by an invoice may have two e-mails: the invoice, and its failure.
  '4941_topup_notices': `
    alter table work.topup_mails add column notice text collate "C" not null default 'failed';
    alter table work.topup_mails drop constraint topup_mails_pkey, add primary key (topup_id, notice);
  `,
  /**
   * E-mails about disputes, one permanent row for each, so that a rebuild sends no e-mail twice. `position` is that of
   * the event in the log of `lineage` (engine.checkpoints).
   */
  '4960_dispute_mails': `
    create table work.dispute_mails (
      transaction_id text collate "C" primary key,
      account_id text not null,
      position bigint not null,
      lineage uuid not null,
      status text not null default 'pending',
      attempts integer not null default 0,
      due_at timestamptz not null,
      finished_at timestamptz,
      result text
    );
    create index dispute_mails_taken on work.dispute_mails (lineage, position);
    select work.add_queue('dispute-mails', 'work.dispute_mails', 'account_id');
  `,
}
