import type pg from 'pg'
import { newId } from '../../kernel/ids.ts'
import type { Migrations } from '../../platform/postgres/migrate.ts'
import type { Vault } from '../../platform/vault/seal.ts'
import type { Login } from './import-file.ts'

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

/** The logins of exits, sealed; a changed one is a new row under a new id. */
export type ExitLogins = {
  /** By credential id; those that are not there are left out. */
  read(credentialIds: readonly string[]): Promise<ReadonlyMap<string, Login>>
  /** Stores them and gives their ids, in order. */
  store(logins: readonly { readonly exitId: string; readonly login: Login }[]): Promise<readonly string[]>
  /** Takes away what these exits have beside the given ids. */
  dropOthers(
    kept: readonly { readonly exitId: string; readonly credentialId: string | null }[],
  ): Promise<void>
}

const contextOf = (credentialId: string): string => `exit login ${credentialId}`

export const createExitLogins = ({ pool, vault }: { pool: pg.Pool; vault: Vault }): ExitLogins => ({
  read: async (credentialIds) => {
    if (credentialIds.length === 0) return new Map()
    const { rows } = await pool.query<{ credential_id: string; sealed: Buffer }>(
      'select credential_id, sealed from vault.exit_credentials where credential_id = any ($1::text[])',
      [credentialIds],
    )
    return new Map(
      rows.map(({ credential_id: id, sealed }) => [
        id,
        JSON.parse(vault.open(sealed, contextOf(id)).toString('utf8')) as Login,
      ]),
    )
  },
  store: async (logins) => {
    const ids = logins.map(() => newId('exc'))
    await pool.query(
      `insert into vault.exit_credentials (credential_id, exit_id, sealed)
       select * from unnest($1::text[], $2::text[], $3::bytea[])`,
      [
        ids,
        logins.map(({ exitId }) => exitId),
        logins.map(({ login }, at) =>
          vault.seal(Buffer.from(JSON.stringify(login)), contextOf(ids[at] ?? '')),
        ),
      ],
    )
    return ids
  },
  dropOthers: async (kept) => {
    await pool.query(
      `delete from vault.exit_credentials old using unnest($1::text[], $2::text[]) now (exit_id, credential_id)
        where old.exit_id = now.exit_id and old.credential_id is distinct from now.credential_id`,
      [kept.map(({ exitId }) => exitId), kept.map(({ credentialId }) => credentialId)],
    )
  },
})
