import { type AccountState, isKeyActive, type KeyState } from '../../domain/accounts/fold.ts'
import { ledgerRef } from '../../domain/ledger/fold.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { AccountId, KeyId } from '../../kernel/ids.ts'
import { microsToCentsCeil, microsToCentsFloor } from '../../kernel/money.ts'
import type { CapCovers, KeyScope as Scope } from '../../kernel/scopes.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import { expiryOf, type InputOf } from '../../platform/cli/input.ts'
import {
  CliMisuse,
  type CliOutput,
  CliRefusal,
  type Columns,
  dollars,
  fields,
  notFound,
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
import { accountsWithKeys, listAccounts } from './account-vault.ts'
import type { capKeyInput, createKeyInput, rollKeyInput } from './commands.ts'
import { lastUses } from './key-uses.ts'

const unknownAccount = () => notFound('no account has this id; "accounts create" makes one')

/** The refusal for the operator, with the next step. */
const refusalOf = (refusal: AccountsRefusal): CliRefusal => {
  const { code } = refusal
  switch (code) {
    case 'unknown_account':
      return unknownAccount()
    case 'unknown_key':
      return notFound('no key has this id; "keys list" shows them')
    case 'expiry_passed':
      return new CliMisuse('the expiry is in the past')
    case 'account_exists':
      return new CliRefusal(code, 'the account exists already')
    case 'email_taken': {
      const { accountId } = refusal
      return new CliRefusal(code, `${accountId} has this e-mail; choose another one`, { accountId })
    }
    case 'invalid_email':
      return new CliRefusal(code, 'the e-mail must be an address such as name@example.com')
    case 'key_revoked':
      return new CliRefusal(code, 'the key is revoked permanently; "keys create" makes another one')
    case 'key_expired':
      return new CliRefusal(code, 'the key has expired; "keys create" makes another one')
    case 'too_many_keys':
      return new CliRefusal(
        code,
        `the account has ${refusal.limit} active keys, the maximum; revoke one first`,
      )
    case 'cap_covers_nothing':
      return new CliRefusal(
        code,
        'the cap would limit nothing, because the key cannot make what it covers: a key that only scrapes needs --cap-covers everything, and a key that only reads needs no cap',
      )
    default:
      return refusal satisfies never
  }
}

/** The result. @throws CliRefusal or CliMisuse, for a refusal */
const requireDone = <Value>(result: AccountsResult<Value>): { readonly changed: boolean } & Value => {
  if (result.outcome === 'refused') throw refusalOf(result.refusal)
  return result
}

/** A key in the command line's output. */
type ShownKey = {
  readonly keyId: KeyId
  readonly name: string | null
  readonly prefix: string
  readonly scopes: readonly Scope[]
  readonly dailyCapCents: number | null
  readonly capCovers: CapCovers | null
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
  { scopes, dailyCapCents, capCovers, displayPrefix, name, networks, expiresAtMs, revoked }: KeyState,
  lastUsedAt: string | null,
  nowMs: number,
): ShownKey => ({
  keyId,
  name,
  prefix: displayPrefix,
  scopes,
  dailyCapCents,
  capCovers: dailyCapCents === null ? null : capCovers,
  networks,
  expiresAt: expiresAtMs === null ? null : isoTime(expiresAtMs),
  lastUsedAt,
  revoked,
  state: revoked ? 'revoked' : isKeyActive({ revoked, expiresAtMs }, nowMs) ? 'works' : 'expired',
})

/** The keys of an account in the log, with the time of their last use. */
const shownKeys = async (
  { pool, clock }: Pick<CliContext, 'pool' | 'clock'>,
  state: NonNullable<AccountState>,
): Promise<readonly ShownKey[]> => {
  const uses = await lastUses(pool, [...state.keys.keys()])
  return [...state.keys].map(([keyId, key]) => shownKey(keyId, key, uses.get(keyId) ?? null, clock()))
}

type ShownCap = Pick<ShownKey, 'dailyCapCents' | 'capCovers'>

const capText = ({ dailyCapCents, capCovers, scopes }: ShownCap & Pick<ShownKey, 'scopes'>): string => {
  if (dailyCapCents === null) return '-'
  const gap = capCovers === 'orders' && scopes.includes('scrape') ? ', not for scraper calls' : ''
  return `${dollars(dailyCapCents)} for ${capCovers}${gap}`
}

/** @throws CliMisuse for what a cap covers without a cap */
const capInput = ({ dailyCapCents, capCovers }: Pick<InputOf<typeof capKeyInput>, keyof ShownCap>) => {
  if (dailyCapCents !== undefined) return { cents: dailyCapCents, covers: capCovers }
  if (capCovers !== undefined) throw new CliMisuse('--cap-covers needs --daily-cap-cents')
  return null
}

const keyColumns: Columns<ShownKey> = {
  key: 'keyId',
  name: 'name',
  'starts with': 'prefix',
  scopes: ({ scopes }) => scopes.join(','),
  'daily cap': capText,
  from: ({ networks }) => networks?.join(',') ?? 'anywhere',
  'last used': ({ lastUsedAt }) => lastUsedAt ?? 'never',
  expires: 'expiresAt',
  state: 'state',
}

/** Finds an account by id or by e-mail: no id has an @. */
const accountOf = async (context: CliContext, idOrEmail: string): Promise<AccountId> => {
  if (!idOrEmail.includes('@')) return idOrEmail as AccountId
  const found = await createAccounts(context).byEmail(idOrEmail, context)
  if (found) return found.accountId
  throw notFound('no account has this e-mail; "accounts create" makes one')
}

const blockText = ({ reason, at, by }: Block): string => `yes, since ${at} by ${by}: ${reason}`

export const showAccount = async (
  context: CliContext,
  { idOrEmail }: { readonly idOrEmail: string },
): Promise<CliOutput> => {
  const accountId = await accountOf(context, idOrEmail)
  const state = await createAccounts(context).read(accountId, context)
  if (!state) throw unknownAccount()
  const wallet = await readState(context.runner, { ...context, name: 'read-wallet' }, ledgerRef(accountId))
  const { reseller, blocked } = state
  const block = blocked ? await blockOf(context.log, accountId) : null
  const keys = await shownKeys(context, state)
  const address = await createAccounts(context).emailOf(accountId, context)
  const balanceCents = microsToCentsFloor(wallet.availableMicros)
  const heldCents = microsToCentsFloor(wallet.heldMicros)
  const owedCents = microsToCentsCeil(wallet.receivableMicros)
  const money = { balanceCents, heldCents, owedCents }
  const text = fields({
    account: accountId,
    'e-mail': address,
    reseller: reseller ? 'yes' : 'no',
    blocked: block ? blockText(block) : 'no',
    balance: dollars(balanceCents),
    held: dollars(heldCents),
    owed: dollars(owedCents),
    'active keys': keys.filter((key) => key.state === 'works').length,
  })
  const keysText = keys.length === 0 ? '' : `\n\n${table(keys, keyColumns, '')}`
  const json = { accountId, email: address, reseller, blocked, block, ...money, currency: 'USD' }
  return { json: { ...json, keys }, text: `${text}${keysText}` }
}

export const listPage = async (
  context: CliContext,
  { limit, offset }: { readonly limit: number; readonly offset: number },
) => {
  const { accounts, total } = await listAccounts(context.pool, { limit, offset })
  const { read } = createAccounts(context)
  const found = await Promise.all(
    accounts.map(async (account) => {
      const state = await read(account.accountId, context)
      return state ? [{ ...account, reseller: state.reseller, blocked: state.blocked }] : []
    }),
  )
  const rows = found.flat()
  return {
    json: { accounts: rows, total, limit, offset },
    rows,
    empty: total === 0 ? 'no accounts; "accounts create" makes one' : 'none on this page',
    note: `\n${rows.length} of ${total}`,
  }
}

export const create = async (
  context: CliContext,
  { email, reseller = false }: { readonly email: string; readonly reseller?: boolean },
) => {
  const { accountId } = requireDone(await createAccounts(context).create({ email, reseller }, context))
  return { json: { accountId, email, reseller }, text: `created ${accountId}` }
}

export const block = async (
  context: CliContext,
  { accountId, reason }: { readonly accountId: AccountId; readonly reason: string },
) => {
  const { changed } = requireDone(await createAccounts(context).block(accountId, reason, context))
  return {
    json: { accountId, blocked: true, changed },
    text: changed ? `blocked ${accountId}` : `${accountId} was blocked already`,
  }
}

export const unblock = async (context: CliContext, { accountId }: { readonly accountId: AccountId }) => {
  const { changed } = requireDone(await createAccounts(context).unblock(accountId, context))
  return {
    json: { accountId, blocked: false, changed },
    text: changed ? `unblocked ${accountId}` : `${accountId} was not blocked`,
  }
}

type Listed = ShownKey & { readonly accountId: AccountId }

const keysOf = async (context: CliContext, accountId: AccountId): Promise<Listed[]> => {
  const state = await createAccounts(context).read(accountId, context)
  if (!state) throw unknownAccount()
  return (await shownKeys(context, state)).map((key) => ({ accountId, ...key }))
}

export const listKeys = async (
  context: CliContext,
  options: { readonly account?: AccountId },
): Promise<CliOutput> => {
  const keys: Listed[] = []
  if (options.account !== undefined) keys.push(...(await keysOf(context, options.account)))
  else
    for (let after: AccountId | null = null; ; ) {
      const page: readonly AccountId[] = await accountsWithKeys(context.pool, after, 100)
      keys.push(...(await Promise.all(page.map((accountId) => keysOf(context, accountId)))).flat())
      after = page.at(-1) ?? null
      if (after === null) break
    }
  return {
    json: { keys },
    text: table(keys, { account: 'accountId', ...keyColumns }, 'no keys; "keys create" makes one'),
  }
}

/** A new key: its terms for people, and the secret. */
const keyOutput = (
  keyId: KeyId,
  secret: string,
  key: Pick<
    Listed,
    'accountId' | 'scopes' | 'name' | 'dailyCapCents' | 'capCovers' | 'networks' | 'expiresAt'
  >,
  former?: { readonly keyId: KeyId; readonly expiresAt: string | null },
): CliOutput => {
  const text = fields({
    key: keyId,
    name: key.name,
    account: key.accountId,
    scopes: key.scopes.join(','),
    'daily cap': capText(key),
    'works from': key.networks?.join(', ') ?? 'anywhere',
    'expires at': key.expiresAt,
    ...(former && { replaces: former.keyId, 'which works until': former.expiresAt }),
  })
  return {
    json: {
      keyId,
      key: secret,
      ...key,
      ...(former && { rolledFrom: former.keyId, formerExpiresAt: former.expiresAt }),
    },
    text: `${text}\n\n${secret}\n\nStore it now: it is not shown again.`,
  }
}

export const createKey = async (context: CliContext, input: InputOf<typeof createKeyInput>) => {
  const { account: accountId, scopes, name = null, networks = null } = input
  const expiresAtMs = expiryOf(context, input)
  const given = capInput(input)
  const cap = given && { cents: given.cents, covers: given.covers ?? 'orders' }
  const terms = { accountId, scopes, name, networks }
  const { keyId, key } = requireDone(
    await createAccounts(context).issueKey({ ...terms, cap, expiresAtMs }, context),
  )
  const shownCap = { dailyCapCents: cap?.cents ?? null, capCovers: cap?.covers ?? null }
  return keyOutput(keyId, key, {
    ...terms,
    ...shownCap,
    expiresAt: expiresAtMs === null ? null : isoTime(expiresAtMs),
  })
}

export const roll = async (context: CliContext, input: InputOf<typeof rollKeyInput>) => {
  const { keyId: formerId, overlap: overlapMs } = input
  const expiresAtMs = expiryOf(context, input)
  const request = { keyId: formerId, overlapMs, ...(expiresAtMs !== null && { expiresAtMs }) }
  const { accountId, keyId, key } = requireDone(await createAccounts(context).rollKey(request, context))
  const keys = await keysOf(context, accountId)
  const shownOf = (wantedId: KeyId): Listed => keys.find((each) => each.keyId === wantedId)!
  const { name, scopes, dailyCapCents, capCovers, networks, expiresAt } = shownOf(keyId)
  return keyOutput(
    keyId,
    key,
    { accountId, scopes, name, dailyCapCents, capCovers, networks, expiresAt },
    { keyId: formerId, expiresAt: shownOf(formerId).expiresAt },
  )
}

export const cap = async (context: CliContext, input: InputOf<typeof capKeyInput>) => {
  const { keyId } = input
  const { accountId, changed } = requireDone(
    await createAccounts(context).capKey(keyId, capInput(input), context),
  )
  const key = (await keysOf(context, accountId)).find((each) => each.keyId === keyId)!
  const { dailyCapCents, capCovers } = key
  return {
    json: { keyId, accountId, dailyCapCents, capCovers, changed },
    text: dailyCapCents === null ? `${keyId} has no cap` : `${keyId} is capped at ${capText(key)}`,
  }
}

export const revoke = async (context: CliContext, { keyId }: { readonly keyId: KeyId }) => {
  const { accountId, changed } = requireDone(await createAccounts(context).revokeKey(keyId, context))
  return {
    json: { keyId, accountId, revoked: true, changed },
    text: changed ? `revoked ${keyId}` : `${keyId} was revoked already`,
  }
}
