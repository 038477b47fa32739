import type { Migrations } from '../../platform/postgres/migrate.ts'

/** How each feed of free proxies went when it was read last, and when it is read again. */
export const migrations: Migrations = {
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
