import type { Migrations } from '../../platform/postgres/migrate.ts'

/**
 * The inputs of scrape batches may contain personal data. So they are in no event, and are deleted a day after the
 * batch is finished. The calls are queue items, and their owner is the account.
 */
const batchTables: Migrations = {
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
  '1784_signed_scrape_batches': `
    alter table work.scrape_batches add column signature bytea;
    alter table work.scrape_batch_items add column signature bytea;
  `,
  '1810_scrape_batch_lists': `
    alter table work.scrape_batches add column canceled_at timestamptz;
    create index scrape_batches_account on work.scrape_batches (account_id, created_at, batch_id);
  `,
  '5151_equal_inputs': `
    alter table work.scrape_batches add column calls integer[], add column max_age_days integer;
    -- The signature covers the new columns. The next start signs these rows.
    update work.scrape_batches set calls = array(select generate_series(1, inputs)), signature = null;
    alter table work.scrape_batches alter column calls set not null;
  `,
}

/**
 * Results of calls, for repeated requests within a day, and the rate limit buckets of accounts. Results may contain
 * personal data of third parties, so they are in no event and in no log line. A bucket that is lost in a crash of
 * Postgres counts as full.
 */
const callTables: Migrations = {
  '1420_scrapes': `
    create table work.scrape_results (
      scrape_id text not null collate "C",
      attempt integer not null,
      outcome text not null,
      cached boolean not null,
      credits_charged integer,
      hash text not null,
      bytes integer not null,
      packing text not null,
      body bytea not null,
      expires_at timestamptz not null,
      primary key (scrape_id, attempt)
    );
    -- Packed already.
    alter table work.scrape_results alter column body set storage external;
    create index scrape_results_expiry on work.scrape_results (expires_at);
    create unlogged table work.scrape_rates (
      account_id text primary key collate "C",
      -- When the bucket is full again, in thousandths of a request since the epoch.
      full_at bigint not null,
      -- How many requests the last statement let through.
      taken integer not null
    ) with (fillfactor = 50);
  `,
  '5150_cached_scrapes': `
    alter table work.scrape_results add column cache_key text collate "C", add column fetched_at timestamptz;
    create index scrape_results_cache on work.scrape_results (cache_key, fetched_at) where cache_key is not null;
  `,
}

/**
 * Hourly results of each scraper: counts of this installation, for the list of scrapers. They contain nothing about
 * customers or targets, and nothing is decided by them.
 */
const healthTables: Migrations = {
  '1430_scraper_health': `
    create table work.scraper_health (
      scraper text not null collate "C",
      hour timestamptz not null,
      good bigint not null,
      bad bigint not null,
      -- Good calls by how long they took: see src/scrapers/provider/health.ts.
      took bigint[] not null,
      last_good_at timestamptz,
      primary key (scraper, hour)
    );
    create index scraper_health_hour on work.scraper_health (hour);
  `,
}

export const migrations: Migrations = { ...callTables, ...batchTables, ...healthTables }
