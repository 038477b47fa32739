import type pg from 'pg'
import type { ExitTerms, ExitVia } from '../../domain/exits/events.ts'
import { createLogins, type LoginRef, type Logins } from '../../platform/vault/logins.ts'
import type { Vault } from '../../platform/vault/seal.ts'

/** The place where an exit's login is used; null: the exit needs no login. */
export const placeOf = (via: ExitVia): string | null => {
  switch (via.kind) {
    case 'direct':
    case 'prefix':
      return null
    case 'template':
      return `${via.protocol} ${via.host}:${via.port}`
    default:
      return `${via.kind} ${via.host}:${via.port}`
  }
}

/** References to the login of an exit; empty for an exit without one. */
export const loginsOf = ({
  via,
  credentialId,
}: Pick<ExitTerms, 'via' | 'credentialId'>): readonly LoginRef[] => {
  const address = placeOf(via)
  return credentialId === null || address === null ? [] : [{ credentialId, place: address }]
}

export type ExitLogins = Logins

export const createExitLogins = (deps: { readonly pool: pg.Pool; readonly vault: Vault }): ExitLogins =>
  createLogins(deps, {
    table: 'vault.exit_credentials',
    owner: 'exit_id',
    context: 'exit login',
    prefix: 'exc',
  })
