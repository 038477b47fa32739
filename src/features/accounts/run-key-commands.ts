import { isoTime } from '../../kernel/clock.ts'
import type { AccountId, KeyId } from '../../kernel/ids.ts'
import type { KeyScope as Scope } from '../../kernel/scopes.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import { expiryOf } from '../../platform/cli/options.ts'
import { CliMisuse, type CliOutput, fields, table } from '../../platform/cli/output.ts'
import { createAccounts } from './account-service.ts'
import { accountsWithKeys } from './account-vault.ts'
import {
  capText,
  keyColumns,
  messageOf,
  requireDone,
  type ShownKey,
  shownKeys,
} from './run-account-commands.ts'

type Listed = ShownKey & { readonly accountId: AccountId }

const keysOf = async (context: CliContext, accountId: AccountId): Promise<Listed[]> => {
  const state = await createAccounts(context).read(accountId, context)
  if (!state) throw new CliMisuse(messageOf({ code: 'unknown_account' }), {}, 'not_found')
  return (await shownKeys(context, state)).map((key) => ({ accountId, ...key }))
}

export const listKeys = async (context: CliContext, options: { account?: AccountId }): Promise<CliOutput> => {
  const keys: Listed[] = []
  if (options.account !== undefined) keys.push(...(await keysOf(context, options.account)))
  else
    for (let after: AccountId | null = null; ; ) {
      const page: readonly AccountId[] = await accountsWithKeys(context.pool, after, 100)
      keys.push(...(await Promise.all(page.map((accountId) => keysOf(context, accountId)))).flat())
      after = page.at(-1) ?? null
      if (after === null) break
    }
  const text = table(
    keys,
    [{ title: 'ACCOUNT', value: ({ accountId }) => accountId }, ...keyColumns],
    'no keys; "keys create" makes one',
  )
  return { json: { keys }, text }
}

const secretShown = (values: Parameters<typeof fields>[0], key: string): string =>
  `${fields(values)}\n\n${key}\n\nKeep it now: it is not shown again.`

type CreateOptions = {
  readonly account: AccountId
  readonly scopes: readonly Scope[]
  readonly name?: string
  readonly dailyCapCents?: number
  readonly networks?: readonly string[]
  readonly expiresAt?: number
  readonly expiresInDays?: number
}

export const create = async (context: CliContext, options: CreateOptions): Promise<CliOutput> => {
  const { account: accountId, scopes, name = null, dailyCapCents = null, networks = null } = options
  const expiresAtMs = expiryOf(context, options)
  const issue = { accountId, scopes, name, dailyCapCents, networks }
  const { keyId, key } = requireDone(
    await createAccounts(context).issueKey({ ...issue, expiresAtMs }, context),
  )
  const expiresAt = expiresAtMs === null ? null : isoTime(expiresAtMs)
  const summary = {
    key: keyId,
    name,
    account: accountId,
    scopes: scopes.join(','),
    'daily cap': capText(dailyCapCents),
    'works from': networks?.join(', ') ?? 'anywhere',
    'expires at': expiresAt,
  }
  return { json: { keyId, key, ...issue, expiresAt }, text: secretShown(summary, key) }
}

type RollOptions = {
  readonly overlap: number
  readonly expiresAt?: number
  readonly expiresInDays?: number
}

export const roll = async (context: CliContext, keyId: KeyId, options: RollOptions): Promise<CliOutput> => {
  const { overlap: overlapMs } = options
  const expiresAtMs = expiryOf(context, options)
  const accounts = createAccounts(context)
  const rollRequest = { keyId, overlapMs, ...(expiresAtMs !== null && { expiresAtMs }) }
  const rollResult = requireDone(await accounts.rollKey(rollRequest, context))
  const { accountId } = rollResult
  const keys = await keysOf(context, accountId)
  const shownOf = (wantedId: KeyId): Listed => {
    const found = keys.find((each) => each.keyId === wantedId)
    if (!found) throw new Error(`${wantedId} was rolled and is not there`)
    return found
  }
  const { name, scopes, dailyCapCents, networks, expiresAt } = shownOf(rollResult.keyId)
  const formerExpiresAt = shownOf(keyId).expiresAt
  const summary = {
    key: rollResult.keyId,
    name,
    account: accountId,
    scopes: scopes.join(','),
    'daily cap': capText(dailyCapCents),
    'works from': networks?.join(', ') ?? 'anywhere',
    'expires at': expiresAt,
    'takes the place of': keyId,
    'which works until': formerExpiresAt,
  }
  const issue = { accountId, scopes, name, dailyCapCents, networks, expiresAt }
  return {
    json: { keyId: rollResult.keyId, key: rollResult.key, ...issue, rolledFrom: keyId, formerExpiresAt },
    text: secretShown(summary, rollResult.key),
  }
}

export const cap = async (context: CliContext, keyId: KeyId, options: { dailyCapCents?: number }) => {
  const dailyCapCents = options.dailyCapCents ?? null
  const { accountId, changed } = requireDone(
    await createAccounts(context).capKey(keyId, dailyCapCents, context),
  )
  return {
    json: { keyId, accountId, dailyCapCents, changed },
    text: dailyCapCents === null ? `${keyId} has no cap` : `${keyId} is capped at ${capText(dailyCapCents)}`,
  }
}

export const revoke = async (context: CliContext, keyId: KeyId) => {
  const { accountId, changed } = requireDone(await createAccounts(context).revokeKey(keyId, context))
  return {
    json: { keyId, accountId, revoked: true, changed },
    text: changed ? `revoked ${keyId}` : `${keyId} was revoked already`,
  }
}
