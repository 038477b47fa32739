import type { Migrations } from '../../platform/postgres/migrate.ts'

/**
 * Every address that was a candidate, with its check results. Rows are added and changed, never deleted. All endpoints
 * stay stored and are checked again without end, also those that never answered.
 *
 * `hours` and `latencies` are the counters of endpoint-status.ts. A fifth of each page stays free for new row versions.
 * Live endpoints are few and due every few minutes. They have their own index, so that the many dead ones do not slow
 * them down.
 */
const endpointTables: Migrations = {
  '1601_free_proxies': `
    create table work.free_proxies (
      ip inet not null check (masklen(ip) = case family(ip) when 4 then 32 else 128 end),
      port int not null check (port between 1 and 65535),
      state text not null collate "C" default 'untested'
        check (state in ('untested', 'live', 'not_answering', 'never_answered')),
      protocols smallint not null default 0,
      anonymity text collate "C",
      exit_ip inet,
      intercepts_tls boolean,
      error text collate "C",
      connect_ms int,
      latencies bytea not null default '',
      hours bytea not null default '',
      hour int not null default 0,
      checks int not null default 0,
      successes int not null default 0,
      failures int not null default 0,
      first_seen timestamptz not null,
      last_checked timestamptz,
      last_answered timestamptz,
      next_due timestamptz not null,
      primary key (ip, port)
    ) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
    create index free_proxies_due on work.free_proxies (next_due, ip, port);
    create index free_proxies_live on work.free_proxies (next_due, ip, port) where state = 'live';
  `,
}

/** The last result of each feed of free proxies, and its next read. */
const sourceTables: Migrations = {
  '1602_proxy_sources': `
    create table work.proxy_sources (
      source_id text primary key collate "C",
      etag text,
      last_modified text,
      next_at timestamptz not null,
      read_at timestamptz not null,
      outcome text not null collate "C" check (outcome in ('read', 'unchanged', 'failed')),
      problem text,
      failures int not null default 0,
      candidates int not null default 0,
      refused int not null default 0,
      unreadable int not null default 0,
      added bigint not null default 0
    );
  `,
}

export const migrations: Migrations = { ...endpointTables, ...sourceTables }
