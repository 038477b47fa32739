import type { Command } from 'commander'
import { type Cli, type CliContext, listOf, wholeNumber } from '../cli/cli.ts'
import { CliMisuse, type CliOutput, dollars, fields, table } from '../cli/output.ts'
import type { AccountId, KeyId } from '../ids.ts'
import type { Scope } from '../terms/scope.ts'
import { done, type keyRow, keyRows, messageOf } from './cli-output.ts'
import { createAccounts } from './service.ts'
import { accountsWithKeys } from './vault.ts'

const capOption = wholeNumber(0, 1_000_000_000)

const cap = (dailyCapCents: number | null): string => (dailyCapCents === null ? '-' : dollars(dailyCapCents))

type Listed = ReturnType<typeof keyRow> & { readonly accountId: AccountId }

const keysOf = async (context: CliContext, accountId: AccountId): Promise<Listed[]> => {
  const state = await createAccounts(context).read(accountId, context)
  if (!state) throw new CliMisuse(messageOf({ code: 'unknown_account' }), {}, 'not_found')
  return keyRows(state).map((row) => ({ accountId, ...row }))
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
    [
      { title: 'KEY', value: ({ keyId }) => keyId },
      { title: 'ACCOUNT', value: ({ accountId }) => accountId },
      { title: 'STARTS WITH', value: ({ prefix }) => prefix },
      { title: 'SCOPES', value: ({ scopes }) => scopes.join(',') },
      { title: 'DAILY CAP', value: ({ dailyCapCents }) => cap(dailyCapCents), align: 'right' },
      { title: 'STATE', value: ({ revoked }) => (revoked ? 'revoked' : 'works') },
    ],
    'no keys; "keys create" makes one',
  )
  return { json: { keys }, text }
}

/** `keys create|cap|revoke|list` */
export const registerKeys = (program: Command, cli: Cli): void => {
  const keys = program.command('keys').description('issue, cap, revoke and list API keys')
  keys
    .command('create')
    .description('issue a key; it is shown this once')
    .requiredOption('--account <id>', 'the account')
    .requiredOption('--scopes <list>', 'buy, scrape or both with a comma between', listOf(['buy', 'scrape']))
    .option('--daily-cap-cents <n>', 'what its orders may cost in any 24 hours, whole cents', capOption)
    .action(
      cli.action(
        async (
          context,
          options: { account: AccountId; scopes: readonly Scope[]; dailyCapCents?: number },
        ) => {
          const { account: accountId, scopes, dailyCapCents = null } = options
          const issue = { accountId, scopes, dailyCapCents }
          const { keyId, key } = done(await createAccounts(context).issueKey(issue, context))
          return {
            json: { keyId, key, ...issue },
            text: `${fields({ key: keyId, account: accountId, scopes: scopes.join(','), 'daily cap': cap(dailyCapCents) })}\n\n${key}\n\nKeep it now: it is not shown again.`,
          }
        },
      ),
    )
  keys
    .command('cap <keyId>')
    .description('set what the orders of a key may cost in any 24 hours; without an amount the cap is lifted')
    .option('--daily-cap-cents <n>', 'whole cents', capOption)
    .action(
      cli.action(async (context, keyId: KeyId, options: { dailyCapCents?: number }) => {
        const dailyCapCents = options.dailyCapCents ?? null
        const { accountId, changed } = done(
          await createAccounts(context).capKey(keyId, dailyCapCents, context),
        )
        return {
          json: { keyId, accountId, dailyCapCents, changed },
          text:
            dailyCapCents === null ? `${keyId} has no cap` : `${keyId} is capped at ${cap(dailyCapCents)}`,
        }
      }),
    )
  keys
    .command('revoke <keyId>')
    .description('end a key for good, within a second on every process')
    .action(
      cli.action(async (context, keyId: KeyId) => {
        const { accountId, changed } = done(await createAccounts(context).revokeKey(keyId, context))
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
