import type { createPool } from '../../src/platform/postgres/pool.ts'

/** Actions that the serving role must be refused. */
const refused: Readonly<Record<string, string>> = {
  'change an event': `update log.events set data = '{}' where position = 1`,
  'remove an event': 'delete from log.events where position = 1',
  'empty the log': 'truncate log.events',
  'move the head': 'update log.head set last_position = 0',
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

export const refusals = async (
  pool: ReturnType<typeof createPool>,
): Promise<Readonly<Record<string, unknown>>> => {
  const codes: Record<string, unknown> = {}
  for (const [what, sql] of Object.entries(refused))
    codes[what] = await pool.query(sql).then(
      () => 'it was done',
      ({ code, message }) => (code === '42501' ? 'refused' : message),
    )
  return codes
}

export const allRefused = Object.fromEntries(Object.keys(refused).map((what) => [what, 'refused']))
