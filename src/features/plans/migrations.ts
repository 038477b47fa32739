import type { Migrations } from '../../platform/postgres/migrate.ts'

/**
 * Counted traffic that is not in the log yet. The counter is the sum of all reports, and never decreases. Writing it to
 * the log twice, or after a crash, therefore adds nothing.
 *
 * `counted_since` is set by the first report after the log was written. Later reports change neither it nor an index,
 * so Postgres rewrites the row in its page (HOT).
 */
export const migrations: Migrations = {
  '1002_traffic': `
    create table work.traffic (
      plan_id text primary key,
      account_id text not null,
      used_bytes bigint not null check (used_bytes >= 0),
      counted_since timestamptz,
      -- From this sum, or from this instant on, the log is written at once: low, exhausted, expired.
      alarm_bytes bigint,
      alarm_at timestamptz
    ) with (fillfactor = 50);
    create index traffic_counted on work.traffic (counted_since) where counted_since is not null;
    create table work.traffic_reporters (
      reporter text primary key,
      sequence bigint not null,
      reported_at timestamptz not null
    ) with (fillfactor = 50);
  `,
}
