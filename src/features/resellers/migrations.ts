import type { Migrations } from '../../platform/postgres/migrate.ts'

/**
 * Encrypted credentials of resellers at third parties. A row never changes, and remains after it is replaced: payments
 * that were started with it still get callbacks and lookups with it.
 */
const gatewayTables: Migrations = {
  '0701_reseller_credentials': `
    create table vault.reseller_credentials (
      reference text primary key,
      reseller_id text not null,
      purpose text not null check (purpose in ('card', 'crypto', 'bot')),
      provider text not null,
      sealed bytea not null,
      created_at timestamptz not null default clock_timestamp()
    );
    create index reseller_credentials_reseller on vault.reseller_credentials (reseller_id);
  `,
}

/**
 * Messages about orders, permanent rows, so that a rebuild sends no message twice. The cursor is the log position up to
 * which notices were taken from `read.order_notices`.
 */
const messageTables: Migrations = {
  '0830_messages': `
    create table work.messages (
      order_id text primary key,
      account_id text not null,
      customer_id text not null,
      outcome text not null,
      attempts integer not null default 0,
      next_at timestamptz not null,
      done_at timestamptz,
      -- 'sent', or why it was not
      result text
    );
    create index messages_due on work.messages (next_at) where done_at is null;
    create table work.message_cursor (
      single boolean primary key default true check (single),
      position bigint not null
    );
    insert into work.message_cursor (position) values (0);
  `,
  // The position belongs to one lineage of the read tables (engine.checkpoints) and restarts in the next.
  '0831_message_lineage': `
    alter table work.message_cursor add column lineage uuid;
    update work.message_cursor set lineage = (select lineage from engine.checkpoints where name = 'hot');
  `,
  '0832_messages_fair': `
    create index messages_due_by_reseller on work.messages (account_id, next_at) where done_at is null;
    drop index work.messages_due;
  `,
  // One of the queues (src/platform/work/migrations.ts).
  '1411_messages_queue': `
    alter table work.messages rename column next_at to due_at;
    alter table work.messages rename column done_at to finished_at;
    alter table work.messages add column status text not null default 'pending';
    update work.messages set status = case when result like 'given up:%' then 'dead' else 'done' end
     where finished_at is not null;
    drop index work.messages_due_by_reseller;
    select work.add_queue('messages', 'work.messages', 'account_id');
  `,
  // An order has two messages if the reseller's wallet was short: one to the reseller, one to the customer.
  '4970_message_notices': `
    alter table work.messages rename column outcome to notice;
    alter table work.messages drop constraint messages_pkey, add primary key (order_id, notice);
  `,
}

export const migrations: Migrations = { ...gatewayTables, ...messageTables }
