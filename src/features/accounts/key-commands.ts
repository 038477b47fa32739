import { type Command, InvalidArgumentError } from 'commander'
import { isoTime } from '../../kernel/clock.ts'
import type { AccountId, KeyId } from '../../kernel/ids.ts'
import type { KeyScope as Scope } from '../../kernel/scopes.ts'
import { type Cli, type CliContext, listOf, wholeNumber } from '../../platform/cli/cli-context.ts'
import { expiryOf, instantOption, nameOption } from '../../platform/cli/options.ts'
import { CliMisuse, type CliOutput, fields, table } from '../../platform/cli/output.ts'
import { capText, keyColumns, messageOf, requireDone, type ShownKey, shownKeys } from './account-commands.ts'
import { createAccounts } from './account-service.ts'
import { accountsWithKeys } from './account-vault.ts'
import { parseNetworks } from './api-key.ts'

const capOption = wholeNumber(0, 1_000_000_000)

/** Parses addresses and networks with commas between. */
const networksOption = (text: string): readonly string[] => {
  const found = parseNetworks(text)
  if ('problem' in found) throw new InvalidArgumentError(found.problem)
  return found.networks
}

const unitMs = { m: 60_000, h: 3_600_000, d: 86_400_000 } as const
const maxOverlapMs = 90 * unitMs.d

/** Parses a time such as `24h` into milliseconds. */
const overlapOption = (text: string): number => {
  const [, count, unit] = /^(\d{1,6})([mhd])$/.exec(text) ?? []
  const ms = Number(count) * unitMs[unit as keyof typeof unitMs]
  if (!(ms <= maxOverlapMs))
    throw new InvalidArgumentError('It must be minutes, hours or days, such as 30m, 24h or 7d, at most 90d.')
  return ms
}

type Listed = ShownKey & { readonly accountId: AccountId }

const keysOf = async (context: CliContext, accountId: AccountId): Promise<Listed[]> => {
  const state = await createAccounts(context).read(accountId, context)
  if (!state) throw new CliMisuse(messageOf({ code: 'unknown_account' }), {}, 'not_found')
  return (await shownKeys(context, state)).map((key) => ({ accountId, ...key }))
}

const listKeys = async (context: CliContext, options: { account?: AccountId }): Promise<CliOutput> => {
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

const create = async (context: CliContext, options: CreateOptions): Promise<CliOutput> => {
  const { account: accountId, scopes, name = null, dailyCapCents = null, networks = null } = options
  const expiresAtMs = expiryOf(context, options)
  const issue = { accountId, scopes, name, dailyCapCents, networks }
  const { keyId, key } = requireDone(
    await createAccounts(context).issueKey({ ...issue, expiresAtMs }, context),
  )
  const expiresAt = expiresAtMs === null ? null : isoTime(expiresAtMs)
  const shown = {
    key: keyId,
    name,
    account: accountId,
    scopes: scopes.join(','),
    'daily cap': capText(dailyCapCents),
    'works from': networks?.join(', ') ?? 'anywhere',
    'expires at': expiresAt,
  }
  return { json: { keyId, key, ...issue, expiresAt }, text: secretShown(shown, key) }
}

type RollOptions = {
  readonly overlap: number
  readonly expiresAt?: number
  readonly expiresInDays?: number
}

const roll = async (context: CliContext, keyId: KeyId, options: RollOptions): Promise<CliOutput> => {
  const { overlap: overlapMs } = options
  const expiresAtMs = expiryOf(context, options)
  const accounts = createAccounts(context)
  const asked = { keyId, overlapMs, ...(expiresAtMs !== null && { expiresAtMs }) }
  const made = requireDone(await accounts.rollKey(asked, context))
  const { accountId } = made
  const keys = await keysOf(context, accountId)
  const shownOf = (wanted: KeyId): Listed => {
    const found = keys.find((each) => each.keyId === wanted)
    if (!found) throw new Error(`${wanted} was rolled and is not there`)
    return found
  }
  const { name, scopes, dailyCapCents, networks, expiresAt } = shownOf(made.keyId)
  const formerExpiresAt = shownOf(keyId).expiresAt
  const shown = {
    key: made.keyId,
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
    json: { keyId: made.keyId, key: made.key, ...issue, rolledFrom: keyId, formerExpiresAt },
    text: secretShown(shown, made.key),
  }
}

const createHelp = `
A key with --networks works from those addresses alone; behind a proxy of yours, FAREBOX_TRUSTED_PROXY says whose
X-Forwarded-For is believed. A key that does not work, for whatever reason, is answered 401 unauthorized.

Examples:
  npx farebox keys create --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --scopes buy --name "web shop"
  npx farebox keys create --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --scopes buy --daily-cap-cents 50000 --networks 203.0.113.0/24,2001:db8::/32 --expires-in-days 90`

const rollHelp = `
The new key has the name, scopes, cap and networks of the former one, which ends by itself after the overlap. Both spend
under one daily cap. A former key that was to expire is followed by one that lives as long, unless an expiry is given.

Examples:
  npx farebox keys roll key_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --overlap 24h
  npx farebox keys roll key_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --overlap 7d --expires-in-days 90`

/** `keys create|cap|roll|revoke|list` */
export const registerKeys = (program: Command, cli: Cli): void => {
  const keys = program.command('keys')
  keys
    .command('create')
    .description('issue a key; it is shown this once')
    .requiredOption('--account <id>', 'the account')
    .requiredOption('--scopes <list>', 'buy, scrape or both with a comma between', listOf(['buy', 'scrape']))
    .option('--name <text>', 'what it is for: it stays in the log for good, name no person', nameOption)
    .option('--daily-cap-cents <n>', 'what its orders may cost in any 24 hours, whole cents', capOption)
    .option(
      '--networks <list>',
      'the only addresses and networks that it works from, such as 203.0.113.0/24',
      networksOption,
    )
    .option('--expires-at <instant>', 'when it stops to work', instantOption)
    .option('--expires-in-days <n>', 'how long it works', wholeNumber(1, 3650))
    .addHelpText('after', createHelp)
    .action(cli.action(create))
  keys
    .command('roll <keyId>')
    .description('issue a key in the place of another one, which ends by itself; it is shown this once')
    .requiredOption('--overlap <time>', 'how long the former one still works, such as 24h', overlapOption)
    .option('--expires-at <instant>', 'when the new one stops to work', instantOption)
    .option('--expires-in-days <n>', 'how long the new one works', wholeNumber(1, 3650))
    .addHelpText('after', rollHelp)
    .action(cli.action(roll))
  keys
    .command('cap <keyId>')
    .description('set what the orders of a key may cost in any 24 hours; without an amount the cap is lifted')
    .option('--daily-cap-cents <n>', 'whole cents', capOption)
    .action(
      cli.action(async (context, keyId: KeyId, options: { dailyCapCents?: number }) => {
        const dailyCapCents = options.dailyCapCents ?? null
        const { accountId, changed } = requireDone(
          await createAccounts(context).capKey(keyId, dailyCapCents, context),
        )
        return {
          json: { keyId, accountId, dailyCapCents, changed },
          text:
            dailyCapCents === null
              ? `${keyId} has no cap`
              : `${keyId} is capped at ${capText(dailyCapCents)}`,
        }
      }),
    )
  keys
    .command('revoke <keyId>')
    .description('end a key for good, within a second on every process')
    .action(
      cli.action(async (context, keyId: KeyId) => {
        const { accountId, changed } = requireDone(await createAccounts(context).revokeKey(keyId, context))
        return {
          json: { keyId, accountId, revoked: true, changed },
          text: changed ? `revoked ${keyId}` : `${keyId} was revoked already`,
        }
      }),
    )
  keys
    .command('list')
    .description('list keys; the keys themselves are not kept')
    .option('--account <id>', 'of this account only')
    .action(cli.action(listKeys))
}
