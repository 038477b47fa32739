import type { Migrations } from '../platform/postgres/migrate.ts'

/**
 * `work.event_digests`: the running digest after each event, 32 bytes each, some thousands per row. The digests prove
 * nothing by themselves. The seals prove them, and they then show which event was changed. They can be rebuilt from the
 * log.
 */
const auditTables: Migrations = {
  '0601_event_digests': `
    create table work.event_digests (
      log_id text not null,
      first_ordinal bigint not null,
      last_ordinal bigint not null,
      -- Where reading goes on after a restart.
      last_position bigint not null,
      last_event_id uuid not null,
      digests bytea not null,
      primary key (log_id, first_ordinal),
      check (first_ordinal > 0 and octet_length(digests) = 32 * (last_ordinal - first_ordinal + 1))
    );
    -- Digests do not compress.
    alter table work.event_digests alter column digests set storage external;
  `,
  '0602_verifications': `
    create table work.verifications (
      run_id text primary key,
      log_id text not null,
      actor text not null,
      started_at timestamptz not null,
      finished_at timestamptz,
      outcome text not null check (outcome in ('running', 'clean', 'differs', 'failed')),
      -- Null while it runs: what src/audit/runs.ts names.
      result jsonb
    );
    create index on work.verifications (started_at desc, run_id desc);
  `,
  '0603_verification_links': `
    -- Runs that ended, one after another: each digest covers its run and the digest before it (runs-chain.ts).
    alter table work.verifications add column link bigint unique, add column link_digest text;
  `,
  '0604_unsigned_events': `
    -- How far events were held against the signatures of the processes, and what no process signed as it stands.
    create table work.signatures_checked (
      log_id text primary key,
      position bigint not null,
      event_id uuid not null,
      signing boolean not null
    );
    create table work.unsigned_events (
      position bigint primary key,
      event_id uuid not null,
      event_type text not null,
      stream text not null,
      account_id text,
      problem text not null
    );
  `,
}

/** `work.seal_delivery`: the last seal of a log that was delivered to a target, and the problem of the next one. */
const deliveryTables: Migrations = {
  '0604_seal_delivery': `
    create table work.seal_delivery (
      log_id text not null,
      target text not null,
      -- Of the last seal that the place has, in the stream of seals; -1 before the first.
      revision bigint not null,
      event_id uuid,
      delivered_at timestamptz,
      -- Null while nothing is wrong.
      problem text,
      failing_since timestamptz,
      primary key (log_id, target)
    );
  `,
}

/** `work.checked_events`: the checked events and the violations, signed by the process that checked them. */
const checkedTable: Migrations = {
  '1792_checked_events': `
    create table work.checked_events (
      log_id text primary key,
      -- The JSON that is signed, so it is no jsonb.
      record text not null,
      signature bytea not null
    );
  `,
}

export const migrations: Migrations = { ...auditTables, ...deliveryTables, ...checkedTable }
