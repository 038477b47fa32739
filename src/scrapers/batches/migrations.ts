import type { Migrations } from '../../platform/postgres/migrate.ts'

/**
 * What batches of scrapes ask for, which may name people: in no event, and gone a day after the batch is over. The
 * calls are items of a queue, whose owner is the account.
 */
export const migrations: Migrations = {
  '1421_scrape_batches': `
    create table work.scrape_batches (
      batch_id text primary key collate "C",
      account_id text not null,
      key_id text not null,
      request_id text not null,
      platform text not null,
      operation text not null,
      fingerprint text not null,
      inputs integer not null,
      created_at timestamptz not null,
      finished_at timestamptz
    );
    create index scrape_batches_open on work.scrape_batches (created_at) where finished_at is null;
    create index scrape_batches_over on work.scrape_batches (finished_at) where finished_at is not null;
    create table work.scrape_batch_items (
      batch_id text not null collate "C",
      -- From 1; as text, for keys of queues are.
      n text not null collate "C",
      account_id text not null,
      input jsonb not null,
      -- What the call came to, and what it cost; null until it is over.
      outcome text,
      charged_micros bigint not null default 0,
      status text not null default 'pending',
      due_at timestamptz not null,
      attempts integer not null default 0,
      finished_at timestamptz,
      result text,
      primary key (batch_id, n)
    );
    select work.add_queue('scrape-batches', 'work.scrape_batch_items', 'account_id');
  `,
}
