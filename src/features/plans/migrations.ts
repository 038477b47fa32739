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
  // Records of finished connections and requests, for their owner only. They are no proof and not part of a backup.
  '1885_traffic_records': `
    create schema traffic;
    -- One partition a day (UTC), which the first writer of the day creates.
    create table traffic.requests (
      plan_id text not null collate "C",
      -- The hour that metered the bytes.
      hour timestamptz not null,
      ended_at timestamptz not null,
      request_id text not null collate "C",
      protocol text not null collate "C",
      line text collate "C",
      host text collate "C",
      port int,
      country text collate "C",
      bytes_up bigint not null,
      bytes_down bigint not null,
      duration_ms bigint not null,
      -- Null: it ended without an error.
      reason text collate "C"
    ) partition by range (hour);
    create index requests_newest on traffic.requests (plan_id, ended_at, request_id);
    create index requests_id on traffic.requests (plan_id, request_id);
    -- Requests beyond the limits of a day and of memory, without details.
    create table traffic.merged_hours (
      plan_id text not null collate "C",
      hour timestamptz not null,
      requests bigint not null,
      failures bigint not null,
      bytes_up bigint not null,
      bytes_down bigint not null,
      primary key (plan_id, hour)
    ) with (fillfactor = 50);
    -- The number of records of a plan, which is limited.
    create table traffic.plan_days (
      plan_id text not null collate "C",
      day date not null,
      records bigint not null,
      primary key (plan_id, day)
    ) with (fillfactor = 50);
    -- What work.traffic counted, by the hour of the gateway. Written in one statement with that counter.
    create table traffic.metered_hours (
      plan_id text not null collate "C",
      hour timestamptz not null,
      bytes bigint not null,
      primary key (plan_id, hour)
    ) with (fillfactor = 50);
    create index metered_hours_hour on traffic.metered_hours (hour);
    create index merged_hours_hour on traffic.merged_hours (hour);
  `,
}
