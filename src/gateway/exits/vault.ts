import type pg from 'pg'
import type { Migrations } from '../../platform/postgres/migrate.ts'
import { createLogins, type Logins } from '../../platform/vault/logins.ts'
import type { Vault } from '../../platform/vault/seal.ts'

export const migrations: Migrations = {
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

/** The logins of exits. */
export type ExitLogins = Logins

export const createExitLogins = (deps: { readonly pool: pg.Pool; readonly vault: Vault }): ExitLogins =>
  createLogins(deps, {
    table: 'vault.exit_credentials',
    owner: 'exit_id',
    context: 'exit login',
    prefix: 'exc',
  })
