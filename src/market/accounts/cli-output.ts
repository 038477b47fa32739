import { isoTime } from '../../kernel/clock.ts'
import type { KeyId } from '../../kernel/ids.ts'
import type { CliContext } from '../../platform/cli/cli.ts'
import { CliMisuse, CliRefusal, type Column, dollars } from '../../platform/cli/output.ts'
import type { Scope } from '../../terms/scope.ts'
import { type AccountState, type KeyState, keyWorks } from './fold.ts'
import { lastUses } from './key-uses.ts'
import type { AccountsRefusal, AccountsResult } from './service.ts'

/** What an operator is told, with what to do. */
export const messageOf = (refusal: AccountsRefusal): string => {
  switch (refusal.code) {
    case 'unknown_account':
      return 'no account has this id; "accounts create" makes one'
    case 'account_exists':
      return 'the account exists already'
    case 'email_taken':
      return `${refusal.accountId} has this e-mail; choose another one`
    case 'invalid_email':
      return 'the e-mail must be an address such as name@example.com'
    case 'unknown_key':
      return 'no key has this id; "keys list" shows them'
    case 'key_revoked':
      return 'the key is revoked for good; "keys create" makes another one'
    case 'key_expired':
      return 'the key has expired; "keys create" makes another one'
    case 'expiry_passed':
      return 'the expiry is in the past'
    case 'too_many_keys':
      return `the account has ${refusal.limit} keys that work, as many as one may have; revoke one first`
    default:
      return refusal satisfies never
  }
}

const refusalOf = (refusal: AccountsRefusal): CliRefusal => {
  const { code } = refusal
  if (code === 'email_taken')
    return new CliRefusal(code, messageOf(refusal), { accountId: refusal.accountId })
  if (code === 'expiry_passed') return new CliMisuse(messageOf(refusal))
  return code === 'unknown_account' || code === 'unknown_key'
    ? new CliMisuse(messageOf(refusal), {}, 'not_found')
    : new CliRefusal(code, messageOf(refusal))
}

/** The result, or the refusal thrown as the command line's. */
export const done = <Made>(result: AccountsResult<Made>): { readonly changed: boolean } & Made => {
  if (result.outcome === 'refused') throw refusalOf(result.refusal)
  return result
}

/** A key as the command line shows it. */
export type ShownKey = {
  readonly keyId: KeyId
  readonly name: string | null
  readonly prefix: string
  readonly scopes: readonly Scope[]
  readonly dailyCapCents: number | null
  readonly networks: readonly string[] | null
  /** ISO 8601 UTC. */
  readonly expiresAt: string | null
  /** ISO 8601 UTC, up to `lastUsedPrecisionS` seconds behind; null for a key that was not used yet. */
  readonly lastUsedAt: string | null
  readonly revoked: boolean
  readonly state: 'works' | 'expired' | 'revoked'
}

const shownKey = (
  keyId: KeyId,
  { scopes, dailyCapCents, displayPrefix, name, networks, expiresAtMs, revoked }: KeyState,
  lastUsedAt: string | null,
  nowMs: number,
): ShownKey => ({
  keyId,
  name,
  prefix: displayPrefix,
  scopes,
  dailyCapCents,
  networks,
  expiresAt: expiresAtMs === null ? null : isoTime(expiresAtMs),
  lastUsedAt,
  revoked,
  state: revoked ? 'revoked' : keyWorks({ revoked, expiresAtMs }, nowMs) ? 'works' : 'expired',
})

/** The keys of an account, as the log has them, with when each was last used. */
export const shownKeys = async (
  { pool, clock }: Pick<CliContext, 'pool' | 'clock'>,
  state: NonNullable<AccountState>,
): Promise<readonly ShownKey[]> => {
  const uses = await lastUses(pool, [...state.keys.keys()])
  return [...state.keys].map(([keyId, key]) => shownKey(keyId, key, uses.get(keyId) ?? null, clock()))
}

export const capText = (dailyCapCents: number | null): string =>
  dailyCapCents === null ? '-' : dollars(dailyCapCents)

/** The columns of a table of keys. */
export const keyColumns: readonly Column<ShownKey>[] = [
  { title: 'KEY', value: ({ keyId }) => keyId },
  { title: 'NAME', value: ({ name }) => name ?? '-' },
  { title: 'STARTS WITH', value: ({ prefix }) => prefix },
  { title: 'SCOPES', value: ({ scopes }) => scopes.join(',') },
  { title: 'DAILY CAP', value: ({ dailyCapCents }) => capText(dailyCapCents), align: 'right' },
  { title: 'FROM', value: ({ networks }) => networks?.join(',') ?? 'anywhere' },
  { title: 'LAST USED', value: ({ lastUsedAt }) => lastUsedAt ?? 'never' },
  { title: 'EXPIRES', value: ({ expiresAt }) => expiresAt ?? '-' },
  { title: 'STATE', value: ({ state }) => state },
]
