import type { Migrations } from '../../platform/postgres/migrate.ts'

/**
 * Results of calls, for those who ask again within a day, and the buckets of the accounts' rate. Bodies may hold personal
 * data of strangers: they stand in no event and in no log line. A bucket that a crash of Postgres empties is a full one.
 */
export const migrations: Migrations = {
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
}
