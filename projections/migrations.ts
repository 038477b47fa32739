import type { Migrations } from '../src/postgres/migrate.ts'

/**
 * Where each group of read models stands in the log. `epoch` fences: it rises whenever a process takes the group over
 * or its tables are exchanged, and a batch lands only at the epoch it was folded under. `definitions` says which
 * version of which model filled the tables of schema `read`; those tables are made by the engine, not by migrations.
 */
export const migrations: Migrations = {
  '0101_checkpoints': `
    create table engine.checkpoints (
      name text primary key,
      log_id text not null,
      position bigint not null,
      epoch bigint not null,
      definitions jsonb not null
    ) with (fillfactor = 50)`,
}
