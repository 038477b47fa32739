import type pg from 'pg'
import { createLogins, type Logins } from '../../platform/vault/logins.ts'
import type { Vault } from '../../platform/vault/seal.ts'

/** The logins of exits. */
export type ExitLogins = Logins

export const createExitLogins = (deps: { readonly pool: pg.Pool; readonly vault: Vault }): ExitLogins =>
  createLogins(deps, {
    table: 'vault.exit_credentials',
    owner: 'exit_id',
    context: 'exit login',
    prefix: 'exc',
  })
