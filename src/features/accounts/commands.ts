import { InvalidArgumentError } from 'commander'
import type { AccountId, KeyId } from '../../kernel/ids.ts'
import { capCoverages, scopes } from '../../kernel/scopes.ts'
import { command } from '../../platform/cli/command.ts'
import {
  argument,
  defaulted,
  expiryInput,
  flag,
  id,
  listOf,
  nameText,
  oneOf,
  option,
  pageInput,
  required,
  wholeNumber,
} from '../../platform/cli/input.ts'
import { parseNetworks } from './api-key.ts'
import { emailText } from './for-commands.ts'

const runs = () => import('./run-commands.ts')

const account = argument('<accountId>', 'the account', id<AccountId>)
const key = { keyId: argument('<keyId>', 'the key', id<KeyId>) }
const dailyCapCents = option(
  '<n>',
  'the most that it may spend in any 24 hours, whole cents',
  wholeNumber(0, 1_000_000_000),
)
const capCovers = option('<what>', `what the cap limits: ${capCoverages.join(' or ')}`, oneOf(capCoverages))

const networks = (text: string): readonly string[] => {
  const parsed = parseNetworks(text)
  if ('problem' in parsed) throw new InvalidArgumentError(parsed.problem)
  return parsed.networks
}

const unitMs = { m: 60_000, h: 3_600_000, d: 86_400_000 } as const
const maxOverlapMs = 90 * unitMs.d

/** Parses a time such as `24h` into milliseconds. */
const durationMs = (text: string): number => {
  const [, count, unit] = /^(\d{1,6})([mhd])$/.exec(text) ?? []
  const ms = Number(count) * unitMs[unit as keyof typeof unitMs]
  if (ms <= maxOverlapMs) return ms
  throw new InvalidArgumentError('It must be minutes, hours or days, such as 30m, 24h or 7d, at most 90d.')
}

export const createKeyInput = {
  account: required('<id>', 'the account', id<AccountId>),
  scopes: required('<list>', 'buy, scrape, read, or several with commas between', listOf(scopes)),
  name: option('<text>', 'its purpose; stored in the log permanently: name no person', nameText),
  dailyCapCents,
  capCovers,
  networks: option(
    '<list>',
    'the only addresses and networks that may use it, e.g. 203.0.113.0/24',
    networks,
  ),
  ...expiryInput,
}

export const capKeyInput = { ...key, dailyCapCents, capCovers }

export const rollKeyInput = {
  ...key,
  overlap: required('<time>', 'how long the former key still works, e.g. 24h', durationMs),
  ...expiryInput,
}

export const commands = [
  command({
    name: 'accounts create',
    about: 'create an account without keys and money',
    input: {
      email: required('<address>', 'the e-mail address; no other account may have it', emailText),
      reseller: flag('the account sells to customers of its own'),
    },
    run: async () => (await runs()).create,
  }),
  command({
    name: 'accounts list',
    about: 'list accounts with their e-mails, newest first',
    input: pageInput,
    columns: {
      account: 'accountId',
      'e-mail': 'email',
      reseller: ({ reseller }) => (reseller ? 'yes' : 'no'),
      state: ({ blocked }) => (blocked ? 'blocked' : 'works'),
      since: 'createdAt',
    },
    run: async () => (await runs()).listPage,
  }),
  command({
    name: 'accounts show',
    about: 'show an account, its wallet and its keys as the log has them',
    input: { idOrEmail: argument('<idOrEmail>', 'the id or the e-mail of the account') },
    run: async () => (await runs()).showAccount,
  }),
  command({
    name: 'accounts block',
    about: 'block an account: it can only read; payments to it are still credited',
    input: {
      accountId: account,
      reason: defaulted('<text>', 'stored in the log permanently: name no person', 'operator'),
    },
    run: async () => (await runs()).block,
  }),
  command({
    name: 'accounts unblock',
    about: 'unblock an account: it can buy again',
    input: { accountId: account },
    run: async () => (await runs()).unblock,
  }),
  command({
    name: 'keys create',
    about: 'create a key; it is shown only once',
    input: createKeyInput,
    details: `A key with --networks works only from those addresses. Behind a reverse proxy, FAREBOX_TRUSTED_PROXY names the proxy whose
X-Forwarded-For is trusted. A key that does not work, for whatever reason, gets 401 unauthorized.`,
    examples: [
      'bin/farebox keys create --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --scopes buy --name "web shop"',
      'bin/farebox keys create --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --scopes buy --daily-cap-cents 50000 --cap-covers everything --networks 203.0.113.0/24,2001:db8::/32 --expires-in-days 90',
    ],
    run: async () => (await runs()).createKey,
  }),
  command({
    name: 'keys roll',
    about: 'replace a key by a new one, which is shown only once; the former key expires',
    input: rollKeyInput,
    details: `The new key has the name, scopes, cap and networks of the former one, which expires after the overlap. Both share one
daily cap. If the former key had an expiry, the new one lives as long, unless an expiry is given.`,
    examples: [
      'bin/farebox keys roll key_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --overlap 24h',
      'bin/farebox keys roll key_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --overlap 7d --expires-in-days 90',
    ],
    run: async () => (await runs()).roll,
  }),
  command({
    name: 'keys cap',
    about: 'set the daily cap of a key; without an amount the cap is removed',
    input: capKeyInput,
    details: `A cap limits the cost of orders. With --cap-covers everything it also limits scraper calls, and the key cannot change
automatic top-up. A changed cap covers what the former one covered, unless it says otherwise.`,
    examples: [
      'bin/farebox keys cap key_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --daily-cap-cents 5000 --cap-covers everything',
    ],
    run: async () => (await runs()).cap,
  }),
  command({
    name: 'keys revoke',
    about: 'revoke a key permanently, within a second on every process',
    input: key,
    run: async () => (await runs()).revoke,
  }),
  command({
    name: 'keys list',
    about: 'list keys; the secrets themselves are not stored',
    input: { account: option('<id>', 'only of this account', id<AccountId>) },
    run: async () => (await runs()).listKeys,
  }),
]
