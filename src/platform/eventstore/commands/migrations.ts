import type { Migrations } from '../../postgres/migrate.ts'

/**
 * Snapshots of folds. They may be thrown away at any time (`truncate engine.snapshots`); states are JSON texts, so that
 * Postgres neither parses nor rewrites them.
 */
export const migrations: Migrations = {
  '0110_snapshots': `
    create table engine.snapshots (
      stream text not null,
      fold text not null,
      log_id text not null,
      version integer not null,
      revision bigint not null,
      event_id text not null,
      recorded_at_ms bigint not null,
      state text not null,
      primary key (stream, fold)
    )`,
}
