import type { createPool } from '../../src/platform/postgres/pool.ts'
import { until } from '../support/until.ts'

/** Actions that the serving role must be refused. */
const refused: Readonly<Record<string, string>> = {
  'change an event': `update log.events set data = '{}' where position = 1`,
  'remove an event': 'delete from log.events where position = 1',
  'empty the log': 'truncate log.events',
  'move the head': 'update log.head set last_position = 0',
  'choose a position': `insert into log.events (position, stream, revision, id, type, data, metadata)
    values (1000000, 'order-x', 0, gen_random_uuid(), 'X', '{}', '{}')`,
  'set the positions': `select setval('log.positions', 1)`,
  'drop a trigger': 'drop trigger append_only on log.events',
  'switch a trigger off': 'alter table log.events disable trigger append_only',
  'switch all triggers off': 'set session_replication_role = replica',
  'drop a key': 'alter table log.events drop constraint events_pkey',
  'make an index': 'create index on log.events (type)',
  'drop the log': 'drop table log.events',
  'replace a function': `create or replace function log.refuse_change() returns trigger language plpgsql as 'begin return null; end'`,
  'make a function': `create function log.more() returns int language sql as 'select 1'`,
  // Postgres only warns of a grant that it does not make.
  'grant itself a right': `grant update on log.events to current_user; update log.events set data = '{}'`,
  'take the ownership': 'alter table log.events owner to current_user',
  'change what landed': 'update public.farebox_migration set checksum = name',
  'change a digest': `update work.event_digests set digests = ''`,
  'remove a verification': 'delete from work.verifications',
  'empty the verifications': 'truncate work.verifications',
  'change a table of the vault': 'alter table vault.accounts add column more text',
}

/** Actions that the serving role must be refused if the auditor has a role of its own. The auditor runs meanwhile. */
const refusedBesideAuditor: Readonly<Record<string, string>> = {
  'end a session': `select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and application_name = 'farebox signatures'`,
  'cancel a statement': `select pg_cancel_backend(pid) from pg_stat_activity
    where datname = current_database() and application_name = 'farebox signatures'`,
  'take a lock': `insert into engine.auditor_locks values ('signatures', pg_backend_pid(), 1, now())
    on conflict (name) do update set backend = excluded.backend`,
  'end a lock': 'delete from engine.auditor_locks',
  'move the check of signatures': 'update work.signatures_checked set position = position + 1',
  'remove an unsigned event': 'delete from work.unsigned_events',
  'change the record of checked events': `update work.checked_events set record = '{}'`,
  'remove digests': 'delete from work.event_digests',
  'add a delivered seal': `insert into work.seal_delivery (log_id, target, revision) values ('x', 'y', 1)`,
  'empty a table': 'truncate work.unsigned_events',
  'lock a table': 'do $$ begin lock table work.signatures_checked in share mode; end $$',
  'remove a violation': 'delete from read.violations',
  'drop a table': 'drop table read.violations',
  'drop the read tables': 'drop schema read cascade',
  'change the state of an invariant': 'update read.audit_wallets set available = available + 1',
  'switch triggers off': 'alter table read.audit_wallets disable trigger all',
  'take its role':
    'do $$ begin execute format($q$set role %I$q$, (select usename from pg_stat_activity where application_name = $q$farebox signatures$q$ and datname = current_database())); end $$',
}

const refusalsOf = async (
  pool: ReturnType<typeof createPool>,
  statements: Readonly<Record<string, string>>,
): Promise<Readonly<Record<string, unknown>>> => {
  const codes: Record<string, unknown> = {}
  for (const [what, sql] of Object.entries(statements))
    codes[what] = await pool.query(sql).then(
      () => 'it was done',
      ({ code, message }) => (code === '42501' ? 'refused' : message),
    )
  return codes
}

const allOf = (statements: object) =>
  Object.fromEntries(Object.keys(statements).map((what) => [what, 'refused']))

export const refusals = (pool: ReturnType<typeof createPool>) => refusalsOf(pool, refused)
export const allRefused = allOf(refused)

/** Waits until the auditor checks signatures, and has made its read tables. */
export const refusalsBesideAuditor = async (pool: ReturnType<typeof createPool>) => {
  await until(
    async () => {
      const { rows } = await pool.query(
        `select from pg_stat_activity where datname = current_database() and application_name = 'farebox signatures'
           and to_regclass('read.violations') is not null`,
      )
      return rows.length > 0
    },
    { timeoutMs: 60_000, what: 'an auditor' },
  )
  return refusalsOf(pool, refusedBesideAuditor)
}
export const allRefusedBesideAuditor = allOf(refusedBesideAuditor)
