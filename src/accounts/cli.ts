import { type Command, InvalidArgumentError } from 'commander'
import { type Cli, type CliContext, listOf, wholeNumber } from '../cli/cli.ts'
import { type CliOutput, CliRefusal, dollars, fields, table } from '../cli/output.ts'
import type { AccountId, KeyId } from '../ids.ts'
import { microsToCentsFloor } from '../ledger/money.ts'
import { createWallets } from '../ledger/service.ts'
import { isEmail } from './email.ts'
import type { Scope } from './events.ts'
import type { AccountState, KeyState } from './fold.ts'
import { type AccountsRefusal, type AccountsResult, createAccounts } from './service.ts'
import { accountsWithKeys, emailOf } from './vault.ts'

const email = (text: string): string => {
  if (isEmail(text)) return text
  throw new InvalidArgumentError('It must be an e-mail address.')
}
const capOption = wholeNumber(0, 1_000_000_000)

const messageOf = (refusal: AccountsRefusal): string => {
  switch (refusal.code) {
    case 'unknown_account':
      return 'no account has this id; "accounts create" makes one'
    case 'account_exists':
      return 'the account exists already'
    case 'email_taken':
      return 'another account has this e-mail; choose another one'
    case 'invalid_email':
      return 'the e-mail must be an address such as name@example.com'
    case 'unknown_key':
      return 'no key has this id; "keys list" shows them'
    case 'key_revoked':
      return 'the key is revoked for good; "keys create" makes another one'
    case 'too_many_keys':
      return `the account has ${refusal.limit} keys that work, as many as one may have; revoke one first`
    default:
      return refusal satisfies never
  }
}

/** The API's codes where it has one. */
const codeOf = ({ code }: AccountsRefusal): string =>
  code === 'unknown_account' || code === 'unknown_key' ? 'not_found' : code

const done = <Made>(result: AccountsResult<Made>): { readonly changed: boolean } & Made => {
  if (result.outcome === 'refused') throw new CliRefusal(codeOf(result.refusal), messageOf(result.refusal))
  return result
}

const keyRow = (keyId: KeyId, { scopes, dailyCapCents, displayPrefix, revoked }: KeyState) => ({
  keyId,
  prefix: displayPrefix,
  scopes,
  dailyCapCents,
  revoked,
})
const keyRows = (state: NonNullable<AccountState>) =>
  [...state.keys].map(([keyId, key]) => keyRow(keyId, key))

const cap = (dailyCapCents: number | null): string => (dailyCapCents === null ? '-' : dollars(dailyCapCents))

const showAccount = async (context: CliContext, accountId: AccountId): Promise<CliOutput> => {
  const state = await createAccounts(context).read(accountId, context)
  if (!state) throw new CliRefusal('not_found', messageOf({ code: 'unknown_account' }))
  const wallet = await createWallets(context).read(accountId, context)
  const { reseller, blocked } = state
  const address = await emailOf(context.pool, accountId)
  const balanceCents = microsToCentsFloor(wallet.availableMicros)
  const heldCents = microsToCentsFloor(wallet.heldMicros)
  const receivableCents = microsToCentsFloor(wallet.receivableMicros)
  const json = { accountId, email: address, reseller, blocked, balanceCents, heldCents, receivableCents }
  const text = fields({
    account: accountId,
    'e-mail': address,
    reseller: reseller ? 'yes' : 'no',
    blocked: blocked ? 'yes' : 'no',
    balance: dollars(balanceCents),
    held: dollars(heldCents),
    owed: dollars(receivableCents),
    'keys that work': state.keys.count(({ revoked }) => !revoked),
  })
  return { json: { ...json, currency: 'USD', keys: keyRows(state) }, text }
}

/** `accounts create|block|unblock|show` */
export const registerAccounts = (program: Command, cli: Cli): void => {
  const accounts = program.command('accounts').description('create, block and show accounts')
  accounts
    .command('create')
    .description('create an account without keys and money')
    .requiredOption('--email <address>', 'the address; one account has it', email)
    .option('--reseller', 'the account sells on to customers of its own')
    .action(
      cli.action(async (context, options: { email: string; reseller?: boolean }) => {
        const reseller = options.reseller === true
        const made = await createAccounts(context).create({ email: options.email, reseller }, context)
        const { accountId } = done(made)
        return { json: { accountId, email: options.email, reseller }, text: `created ${accountId}` }
      }),
    )
  accounts
    .command('block <accountId>')
    .description('let an account read only; money that was paid to it is still credited')
    .option('--reason <text>', 'stands in the log for ever: name no person', 'operator')
    .action(
      cli.action(async (context, accountId: AccountId, options: { reason: string }) => {
        const { changed } = done(await createAccounts(context).block(accountId, options.reason, context))
        return {
          json: { accountId, blocked: true, changed },
          text: changed ? `blocked ${accountId}` : `${accountId} was blocked already`,
        }
      }),
    )
  accounts
    .command('unblock <accountId>')
    .description('let a blocked account buy again')
    .action(
      cli.action(async (context, accountId: AccountId) => {
        const { changed } = done(await createAccounts(context).unblock(accountId, context))
        return {
          json: { accountId, blocked: false, changed },
          text: changed ? `unblocked ${accountId}` : `${accountId} was not blocked`,
        }
      }),
    )
  accounts
    .command('show <accountId>')
    .description('show an account, its wallet and its keys as the log has them')
    .action(cli.action(showAccount))
}

type Listed = ReturnType<typeof keyRow> & { readonly accountId: AccountId }

const keysOf = async (context: CliContext, accountId: AccountId): Promise<Listed[]> => {
  const state = await createAccounts(context).read(accountId, context)
  return state ? keyRows(state).map((row) => ({ accountId, ...row })) : []
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
