import { type AccountState, isKeyActive, type KeyState } from '../../domain/accounts/fold.ts'
import { ledgerRef } from '../../domain/ledger/fold.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { AccountId, KeyId } from '../../kernel/ids.ts'
import { microsToCentsFloor } from '../../kernel/money.ts'
import type { KeyScope as Scope } from '../../kernel/scopes.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import {
  CliMisuse,
  type CliOutput,
  CliRefusal,
  type Column,
  dollars,
  fields,
  table,
} from '../../platform/cli/output.ts'
import { readState } from '../../platform/commands/command.ts'
import {
  type AccountsRefusal,
  type AccountsResult,
  type Block,
  blockOf,
  createAccounts,
} from './account-service.ts'
import { listAccounts } from './account-vault.ts'
import { lastUses } from './key-uses.ts'

/** The message for the operator, with the next step. */
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

/** The result. @throws CliRefusal or CliMisuse, for a refusal */
export const requireDone = <Value>(result: AccountsResult<Value>): { readonly changed: boolean } & Value => {
  if (result.outcome === 'refused') throw refusalOf(result.refusal)
  return result
}

/** A key in the command line's output. */
export type ShownKey = {
  readonly keyId: KeyId
  readonly name: string | null
  readonly prefix: string
  readonly scopes: readonly Scope[]
  readonly dailyCapCents: number | null
  readonly networks: readonly string[] | null
  /** ISO 8601 UTC. */
  readonly expiresAt: string | null
  /** ISO 8601 UTC, up to `lastUsedPrecisionS` seconds behind; null for a key without a use. */
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
  state: revoked ? 'revoked' : isKeyActive({ revoked, expiresAtMs }, nowMs) ? 'works' : 'expired',
})

/** The keys of an account in the log, with the time of their last use. */
export const shownKeys = async (
  { pool, clock }: Pick<CliContext, 'pool' | 'clock'>,
  state: NonNullable<AccountState>,
): Promise<readonly ShownKey[]> => {
  const uses = await lastUses(pool, [...state.keys.keys()])
  return [...state.keys].map(([keyId, key]) => shownKey(keyId, key, uses.get(keyId) ?? null, clock()))
}

export const capText = (dailyCapCents: number | null): string =>
  dailyCapCents === null ? '-' : dollars(dailyCapCents)

/** The columns of the key table. */
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

/** Finds an account by id or by e-mail: no id has an @. */
const accountOf = async (context: CliContext, idOrEmail: string): Promise<AccountId> => {
  if (!idOrEmail.includes('@')) return idOrEmail as AccountId
  const found = await createAccounts(context).byEmail(idOrEmail, context)
  if (found) return found.accountId
  throw new CliMisuse('no account has this e-mail; "accounts create" makes one', {}, 'not_found')
}

const blockText = ({ reason, at, by }: Block): string => `yes, since ${at} by ${by}: ${reason}`

export const showAccount = async (context: CliContext, idOrEmail: string): Promise<CliOutput> => {
  const accountId = await accountOf(context, idOrEmail)
  const state = await createAccounts(context).read(accountId, context)
  if (!state) throw new CliMisuse(messageOf({ code: 'unknown_account' }), {}, 'not_found')
  const wallet = await readState(context.runner, { ...context, name: 'read-wallet' }, ledgerRef(accountId))
  const { reseller, blocked } = state
  const block = blocked ? await blockOf(context.log, accountId) : null
  const keys = await shownKeys(context, state)
  const address = await createAccounts(context).emailOf(accountId, context)
  const balanceCents = microsToCentsFloor(wallet.availableMicros)
  const heldCents = microsToCentsFloor(wallet.heldMicros)
  const receivableCents = microsToCentsFloor(wallet.receivableMicros)
  const money = { balanceCents, heldCents, receivableCents }
  const text = fields({
    account: accountId,
    'e-mail': address,
    reseller: reseller ? 'yes' : 'no',
    blocked: block ? blockText(block) : 'no',
    balance: dollars(balanceCents),
    held: dollars(heldCents),
    owed: dollars(receivableCents),
    'keys that work': keys.filter((key) => key.state === 'works').length,
  })
  const keysText = keys.length === 0 ? '' : `\n\n${table(keys, keyColumns, '')}`
  const json = { accountId, email: address, reseller, blocked, block, ...money, currency: 'USD' }
  return { json: { ...json, keys }, text: `${text}${keysText}` }
}

export const listPage = async (
  context: CliContext,
  { limit, offset }: { readonly limit: number; readonly offset: number },
): Promise<CliOutput> => {
  const { accounts, total } = await listAccounts(context.pool, { limit, offset })
  const { read } = createAccounts(context)
  const found = await Promise.all(
    accounts.map(async (account) => {
      const state = await read(account.accountId, context)
      return state ? [{ ...account, reseller: state.reseller, blocked: state.blocked }] : []
    }),
  )
  const rows = found.flat()
  const text = table(
    rows,
    [
      { title: 'ACCOUNT', value: ({ accountId }) => accountId },
      { title: 'E-MAIL', value: (row) => row.email ?? '-' },
      { title: 'RESELLER', value: ({ reseller }) => (reseller ? 'yes' : 'no') },
      { title: 'STATE', value: ({ blocked }) => (blocked ? 'blocked' : 'works') },
      { title: 'SINCE', value: ({ createdAt }) => createdAt },
    ],
    total === 0 ? 'no accounts; "accounts create" makes one' : 'none on this page',
  )
  return { json: { accounts: rows, total, limit, offset }, text: `${text}\n\n${rows.length} of ${total}` }
}

export const create = async (context: CliContext, options: { email: string; reseller?: boolean }) => {
  const reseller = options.reseller === true
  const newAccount = await createAccounts(context).create({ email: options.email, reseller }, context)
  const { accountId } = requireDone(newAccount)
  return { json: { accountId, email: options.email, reseller }, text: `created ${accountId}` }
}

export const block = async (context: CliContext, accountId: AccountId, options: { reason: string }) => {
  const { changed } = requireDone(await createAccounts(context).block(accountId, options.reason, context))
  return {
    json: { accountId, blocked: true, changed },
    text: changed ? `blocked ${accountId}` : `${accountId} was blocked already`,
  }
}

export const unblock = async (context: CliContext, accountId: AccountId) => {
  const { changed } = requireDone(await createAccounts(context).unblock(accountId, context))
  return {
    json: { accountId, blocked: false, changed },
    text: changed ? `unblocked ${accountId}` : `${accountId} was not blocked`,
  }
}
