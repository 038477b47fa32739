import type { Migrations } from '../platform/postgres/migrate.ts'

/**
 * The plan of each username. Usernames are derived from plan ids with a secret one-way function, so they are looked up
 * here. The table is only an index: missing rows are created again from the plans.
 */
const loginTables: Migrations = {
  '1402_gateway_logins': `
    create table work.gateway_logins (
      username text primary key collate "C",
      plan_id text not null collate "C",
      started_at timestamptz not null
    );
    create index gateway_logins_started on work.gateway_logins (started_at);
  `,
  // The same for rentals whose addresses are endpoints of suppliers.
  '1406_gateway_rental_logins': `
    create table work.gateway_rental_logins (
      username text primary key collate "C",
      proxy_id text not null collate "C",
      started_at timestamptz not null
    );
    create index gateway_rental_logins_started on work.gateway_rental_logins (started_at);
  `,
  // How often the link of a mobile rental switched it to another exit.
  '1405_rental_turns': `
    create table work.rental_turns (
      proxy_id text primary key collate "C",
      turns bigint not null,
      turned_at timestamptz not null
    );
  `,
}

/**
 * Traffic that gateway processes may still consume. The available bytes of a plan are its total, less the counted
 * bytes, less the leased bytes. A lease is stored before its process consumes the first byte, so no byte is consumed
 * twice.
 *
 * `work.lease_traffic` is one statement for the caller and several for Postgres. The sum of the leases is read after
 * the plan's counter is locked, so the later of two processes sees the lease of the earlier one. One statement would
 * read both as of its start. Counters are locked in the order of their ids, which prevents deadlocks.
 * @param withTotals also returns the total and the used bytes, which the gateway compares with the log
 */
const leaseFunction = (withTotals: boolean): string => `    create function work.lease_traffic(
      by_worker text, plan_ids text[], held bigint[], wanted bigint[], smallest bigint, share int, expire_seconds int)
    returns table (plan_id text, granted bigint, free bigint, elsewhere bigint, workers int, paused boolean${withTotals ? ',\n      total bigint, used bigint' : ''})
    language plpgsql as $$
    begin
      perform from work.traffic counter where counter.plan_id = any (plan_ids) order by counter.plan_id for update;
      delete from work.gateway_leases lease
       where lease.plan_id = any (plan_ids) and lease.worker <> by_worker and lease.renewed_at < clock_timestamp() - make_interval(secs => expire_seconds);
      return query
        with given as (
          select * from unnest(plan_ids, held, wanted) as given (plan_id, held, wanted)),
        others as (
          select lease.plan_id, sum(lease.bytes)::bigint as bytes, count(*)::int as workers
            from work.gateway_leases lease
           where lease.plan_id = any (plan_ids) and lease.worker <> by_worker
           group by lease.plan_id),
        stands as (
          select given.*, coalesce(others.bytes, 0) as elsewhere, coalesce(others.workers, 0) as workers,
                 coalesce(counter.leases_paused_until > clock_timestamp(), false) as paused,
${withTotals ? '                 plan.total_bytes as total, greatest(plan.used_bytes, counter.used_bytes) as used,\n' : ''}                 case when plan.total_bytes is null then null else greatest(0,
                   plan.total_bytes - greatest(plan.used_bytes, counter.used_bytes)
                     - coalesce(others.bytes, 0) - given.held) end as free
            from given
            join work.traffic counter on counter.plan_id = given.plan_id
            join read.plans plan on plan.plan_id = given.plan_id
            left join others on others.plan_id = given.plan_id),
        decided as (
          select stands.*,
                 case when stands.free is null or stands.paused then 0
                      else least(stands.wanted, stands.free, greatest(stands.free / share, smallest)) end as granted
            from stands),
        ended as (
          delete from work.gateway_leases lease using decided
           where lease.plan_id = decided.plan_id and lease.worker = by_worker and decided.wanted < 0),
        renewed as (
          insert into work.gateway_leases as lease (worker, plan_id, bytes, renewed_at)
          select by_worker, decided.plan_id, decided.held + decided.granted, clock_timestamp()
            from decided where decided.wanted >= 0
          on conflict on constraint gateway_leases_pkey
            do update set bytes = excluded.bytes, renewed_at = excluded.renewed_at)
        select decided.plan_id, greatest(decided.granted, 0), decided.free, decided.elsewhere, decided.workers, decided.paused${withTotals ? ',\n               decided.total, decided.used' : ''}
          from decided;
    end
    $$;
`

const leaseTables: Migrations = {
  '1401_gateway_leases': `
    create table work.gateway_leases (
      worker text not null collate "C",
      plan_id text not null collate "C",
      bytes bigint not null check (bytes >= 0),
      renewed_at timestamptz not null,
      primary key (plan_id, worker)
    ) with (fillfactor = 50);
    create index gateway_leases_worker on work.gateway_leases (worker);
    alter table work.traffic add column leases_paused_until timestamptz;
${leaseFunction(false)}  `,
  '1403_gateway_usage': `
    create table work.gateway_sessions (
      plan_id text not null collate "C",
      session_id text not null collate "C",
      used_bytes bigint not null,
      ends_at timestamptz not null,
      primary key (plan_id, session_id)
    ) with (fillfactor = 50);
    create index gateway_sessions_end on work.gateway_sessions (ends_at);
    create table work.plan_hours (
      plan_id text not null collate "C",
      hour timestamptz not null,
      bytes_up bigint not null,
      bytes_down bigint not null,
      connections bigint not null,
      primary key (plan_id, hour)
    ) with (fillfactor = 50);
    create table work.plan_failures (
      plan_id text not null collate "C",
      hour timestamptz not null,
      error text not null collate "C",
      count bigint not null,
      primary key (plan_id, hour, error)
    ) with (fillfactor = 50);
    create table work.plan_hosts (
      plan_id text not null collate "C",
      day date not null,
      host text not null collate "C",
      bytes bigint not null,
      connections bigint not null,
      primary key (plan_id, day, host)
    ) with (fillfactor = 50);
    create index plan_hosts_day on work.plan_hosts (day);
    -- Plans whose owners do not want the hosts to be counted.
    create table work.plans_without_hosts (plan_id text primary key collate "C");
  `,
}

const leaseTotals: Migrations = {
  '1870_leases_with_totals': `
    drop function work.lease_traffic(text, text[], bigint[], bigint[], bigint, int, int);
${leaseFunction(true)}  `,
}

export const migrations: Migrations = { ...loginTables, ...leaseTables, ...leaseTotals }
