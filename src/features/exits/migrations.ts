import type { Migrations } from '../../platform/postgres/migrate.ts'

/**
 * Data about exits that gateway processes share. Health: one row for each exit that ever failed. Sticky sessions: the
 * exit of a session from its first use to the end of its lifetime. `round` increases each time that the session gets
 * another exit, so that of two processes that choose at once one wins. `changed_at` is null until the session is
 * released or its exit fails: every process knows the end of the lifetime, so only earlier changes are polled.
 */
const healthTables: Migrations = {
  '1403_exit_health': `
    create table work.exit_health (
      exit_id text primary key collate "C",
      alive boolean not null,
      problem text,
      strikes int not null default 0,
      retry_at timestamptz not null default '-infinity',
      changed_at timestamptz not null default clock_timestamp()
    ) with (fillfactor = 50);
    create index exit_health_changed on work.exit_health (changed_at);
    create table work.sticky_sessions (
      session_key text primary key collate "C",
      holder text not null collate "C",
      session_id text not null collate "C",
      exit_key text not null,
      round int not null,
      started_at timestamptz not null,
      expires_at timestamptz not null,
      failed boolean not null default false,
      changed_at timestamptz
    );
    create index sticky_sessions_holder on work.sticky_sessions (holder, session_id);
    create index sticky_sessions_expires on work.sticky_sessions (expires_at);
    create index sticky_sessions_changed on work.sticky_sessions (changed_at) where changed_at is not null;
  `,
  // Local exits differ between machines: the dead ones of each machine that runs gateways.
  '1408_gateway_machines': `
    create table work.gateway_machines (
      machine text primary key collate "C",
      dead_exits text[] not null,
      looked_at timestamptz not null
    );
    delete from work.exit_health;
  `,
}

const loginTables: Migrations = {
  '1402_exit_credentials': `
    create table vault.exit_credentials (
      credential_id text primary key,
      exit_id text not null,
      sealed bytea not null,
      created_at timestamptz not null default clock_timestamp()
    );
    create index exit_credentials_exit on vault.exit_credentials (exit_id);
  `,
}

export const migrations: Migrations = { ...healthTables, ...loginTables }
