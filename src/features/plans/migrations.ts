import type { Migrations } from '../../platform/postgres/migrate.ts'

/** Selects the rows of `work.traffic_budget_use` that reached a part which is not in the log. */
export const isBudgetDue = `reached_percent < 100
        and used_bytes::numeric * 100 >= limit_bytes::numeric * case when reached_percent < 80 then 80 else 100 end`

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
  // `counted_from` is the start of a period or a later reset. A new period has a new row, so it begins at 0.
  '1890_traffic_budgets': `
    create table work.traffic_budget_use (
      budget_id text not null collate "C",
      counted_from timestamptz not null,
      used_bytes bigint not null default 0 check (used_bytes >= 0),
      limit_bytes bigint not null check (limit_bytes > 0),
      -- The highest part, in percent, that is in the log.
      reached_percent int not null default 0,
      primary key (budget_id, counted_from)
    ) with (fillfactor = 50);
    create index traffic_budget_due on work.traffic_budget_use (budget_id, counted_from) where ${isBudgetDue};
    create table work.traffic_budget_leases (
      budget_id text not null collate "C",
      counted_from timestamptz not null,
      worker text not null collate "C",
      bytes bigint not null check (bytes >= 0),
      renewed_at timestamptz not null,
      primary key (budget_id, counted_from, worker)
    ) with (fillfactor = 50);
    create index traffic_budget_leases_worker on work.traffic_budget_leases (worker);
    -- As work.lease_traffic, for budgets: the limit comes from the caller, which reads it from the log.
    create function work.lease_traffic_budgets(
      by_worker text, ids text[], counted timestamptz[], limits bigint[], held bigint[], wanted bigint[],
      smallest bigint, share int, expire_seconds int)
    returns table (budget_id text, counted_from timestamptz, granted bigint, free bigint, elsewhere bigint)
    language plpgsql as $$
    begin
      insert into work.traffic_budget_use as known (budget_id, counted_from, limit_bytes)
      select given.id, given.counted, given.most from unnest(ids, counted, limits) as given (id, counted, most)
       order by 1, 2
      on conflict on constraint traffic_budget_use_pkey do update
        set limit_bytes = excluded.limit_bytes, reached_percent = 0
        where known.limit_bytes <> excluded.limit_bytes;
      perform from work.traffic_budget_use counter
        join unnest(ids, counted) as given (id, counted)
          on counter.budget_id = given.id and counter.counted_from = given.counted
       order by counter.budget_id, counter.counted_from for update of counter;
      delete from work.traffic_budget_leases lease using unnest(ids, counted) as given (id, counted)
       where lease.budget_id = given.id and lease.counted_from = given.counted and lease.worker <> by_worker
         and lease.renewed_at < clock_timestamp() - make_interval(secs => expire_seconds);
      return query
        with given as (
          select * from unnest(ids, counted, held, wanted) as given (id, counted, held, wanted)),
        others as (
          select lease.budget_id, lease.counted_from, sum(lease.bytes)::bigint as bytes
            from work.traffic_budget_leases lease
            join given on lease.budget_id = given.id and lease.counted_from = given.counted
           where lease.worker <> by_worker
           group by lease.budget_id, lease.counted_from),
        available as (
          select given.*, coalesce(others.bytes, 0)::bigint as elsewhere,
                 greatest(0, counter.limit_bytes - counter.used_bytes - coalesce(others.bytes, 0) - given.held)::bigint as free
            from given
            join work.traffic_budget_use counter
              on counter.budget_id = given.id and counter.counted_from = given.counted
            left join others on others.budget_id = given.id and others.counted_from = given.counted),
        decided as (
          select available.*,
                 least(available.wanted, available.free, greatest(available.free / share, smallest)) as granted
            from available),
        ended as (
          delete from work.traffic_budget_leases lease using decided
           where lease.budget_id = decided.id and lease.counted_from = decided.counted
             and lease.worker = by_worker and decided.wanted < 0),
        renewed as (
          insert into work.traffic_budget_leases as lease (worker, budget_id, counted_from, bytes, renewed_at)
          select by_worker, decided.id, decided.counted, decided.held + decided.granted, clock_timestamp()
            from decided where decided.wanted >= 0
          on conflict on constraint traffic_budget_leases_pkey
            do update set bytes = excluded.bytes, renewed_at = excluded.renewed_at)
        select decided.id, decided.counted, greatest(decided.granted, 0), decided.free, decided.elsewhere
          from decided;
    end
    $$;
  `,
}
