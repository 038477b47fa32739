import { InvalidArgumentError } from 'commander'
import { type Period, parsePeriod } from '../../kernel/months.ts'
import { command, commandGroup, type Register } from '../../platform/cli/command.ts'
import {
  argument,
  defaulted,
  expiryInput,
  flag,
  formatInput,
  nameText,
  option,
  required,
  wholeNumber,
} from '../../platform/cli/input.ts'
import { bookForms, momentForms, momentText } from './for-commands.ts'
import { type ReportForm, reportForms, resourceIds } from './input-forms.ts'

const runs = () => import('./run-commands.ts')

const periodText = (text: string): Period => {
  const period = parsePeriod(text)
  if (period !== null) return period
  throw new InvalidArgumentError('It must be a month such as 2026-11.')
}

const book = option('<name>', bookForms)

/** `account` is left out for reports of all accounts, `depth` for most. */
export const reportInput = {
  account: argument('[account]', ''),
  asOf: option('<moment>', `as of a moment: ${momentForms}`, momentText),
  from: option('<moment>', 'only entries from this position or time on', momentText),
  to: option('<moment>', 'only entries before this position or time', momentText),
  book,
  ...formatInput,
  depth: option(
    '<n>',
    'cut account names to this many parts, e.g. 2 for liabilities:wallet',
    wholeNumber(1, 10),
  ),
}

/** `ledger trial-balance|account|statement` */
const reportCommand = ({ name, takes, command: texts }: ReportForm): Register => {
  const { account: _, depth, asOf, format, ...ranged } = reportInput
  const shared = { asOf, ...(takes.moment ? {} : ranged), format }
  const account = takes.account && { account: argument('<account>', 'as in the trial balance') }
  return command({
    name: `ledger ${name}`,
    about: texts.description,
    ...(texts.summary !== undefined && { summary: texts.summary }),
    input: { ...account, ...shared, ...(takes.depth && { depth }) } as typeof reportInput,
    examples: texts.examples,
    run: async () => (await runs()).printReport(name),
  })
}

export const replayInput = {
  until: option('<moment>', `up to the last position at or before ${momentForms}`, momentText),
  account: option('<name>', 'only this account and those below it; acc_… is a wallet'),
  book,
  ...formatInput,
}

export const explainInput = {
  subject: argument('<account|id|position>', ''),
  asOf: option('<moment>', `for an account: as of ${momentForms}`, momentText),
  book: option('<name>', `for an account: ${bookForms}`),
  limit: defaulted(
    '<n>',
    'at most this many events: the last ones, or those nearest to a position',
    20,
    wholeNumber(1, 1000),
  ),
}

export const createTokenInput = {
  name: required('<text>', 'its purpose; stored in the log permanently: name no person', nameText),
  ...expiryInput,
  neverExpires: flag('it works until it is revoked', 'expiresAt', 'expiresInDays'),
}

export const commands: readonly Register[] = [
  ...Object.values(reportForms).map(reportCommand),
  command({
    name: 'ledger replay',
    about: 'former balances, folded only from the log: no table is read or written',
    input: replayInput,
    examples: [
      'bin/farebox ledger replay',
      'bin/farebox ledger replay --until 2026-11-01 --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b',
      'bin/farebox ledger replay --until pos_0_1284 --format csv',
    ],
    run: async () => (await runs()).replayLog,
  }),
  command({
    name: 'ledger explain',
    about: 'the events behind a balance, a resource or an entry: their actors, requests and terms',
    input: explainInput,
    details: `An account is named as in the trial balance; acc_… is its wallet, cus_… the credit of a customer. The ids of resources
begin with ${resourceIds}. A position is an event's place in the log, such as pos_0_1284.`,
    examples: [
      'bin/farebox ledger explain ord_6c0f4e7d2b1a5c3e8f9d0a1b2c3d4e5f',
      'bin/farebox ledger explain dep_0190d0a2c1d27f0e8f6e5c4b3a291807 --limit 100',
      'bin/farebox ledger explain acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --as-of 2026-11-01',
      'bin/farebox ledger explain revenue:orders:isp --limit 5',
      'bin/farebox ledger explain pos_0_1284',
    ],
    run: async () => (await import('./run-explain-command.ts')).explain,
  }),
  commandGroup('finance token', 'issue, revoke and list finance tokens'),
  command({
    name: 'finance token create',
    about: 'create a token that reads the books over HTTP; it is shown only once',
    input: createTokenInput,
    check: ({ expiresAt, expiresInDays, neverExpires }) =>
      expiresAt === undefined && expiresInDays === undefined && !neverExpires
        ? 'give an expiry: --expires-in-days (e.g. 90), --expires-at or --never-expires'
        : null,
    examples: ['bin/farebox finance token create --name "monthly close" --expires-in-days 90'],
    run: async () => (await runs()).createToken,
  }),
  command({
    name: 'finance token revoke',
    about: 'revoke a token permanently, at once on every process',
    input: { tokenId: argument('<tokenId>', 'the token') },
    examples: ['bin/farebox finance token revoke fin_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b'],
    run: async () => (await runs()).revokeToken,
  }),
  command({
    name: 'finance token list',
    about: 'list tokens; the secrets themselves are not stored',
    columns: {
      token: 'tokenId',
      name: 'name',
      'starts with': 'prefix',
      'issued at': 'issuedAt',
      'expires at': ({ expiresAt }) => expiresAt ?? 'never',
      state: 'state',
    },
    empty: 'no finance tokens; "finance token create" makes one',
    run: async () => (await runs()).listTokens,
  }),
  command({
    name: 'ledger close',
    about: 'close the books of a month and of every month before it, permanently; a second run does nothing',
    input: {
      period: required('<month>', 'a month that ended at least five minutes ago, e.g. 2026-11', periodText),
    },
    examples: ['bin/farebox ledger close --period 2026-11'],
    columns: {
      period: 'period',
      'closed at': 'closedAt',
      now: ({ now }) => (now ? 'yes' : 'before'),
      entries: 'entries',
      'through event': 'throughOrdinal',
      digest: 'digest',
    },
    run: async () => (await runs()).closePeriods,
  }),
  command({
    name: 'ledger periods',
    about: 'list the months of the log, or show the report of one: opening, movements, closing',
    input: { month: argument('[month]', 'e.g. 2026-11', periodText), ...formatInput },
    examples: [
      'bin/farebox ledger periods',
      'bin/farebox ledger periods 2026-11',
      `bin/farebox ledger periods 2026-11 --format csv | tail -c +4 | tr -d '\\r' | sha256sum  # the digest in the log`,
    ],
    run: async () => (await runs()).showPeriods,
  }),
]
