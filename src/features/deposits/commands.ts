import { shownDepositStatuses } from '../../domain/deposits/fold.ts'
import { reversalReasons } from '../../domain/payments/payments.ts'
import type { AccountId, DepositId } from '../../kernel/ids.ts'
import { command } from '../../platform/cli/command.ts'
import {
  argument,
  defaulted,
  flag,
  id,
  oneOf,
  option,
  required,
  wholeNumber,
} from '../../platform/cli/input.ts'
import { resourceCommands } from '../accounts/for-commands.ts'
import { account, maxCents, referenceText } from '../wallet/for-commands.ts'

const runs = () => import('./run-commands.ts')

export const reviewInput = {
  deposit: argument('<deposit>', 'its id', id<DepositId>),
  number: argument('<number>', 'the number of the change', wholeNumber(1)),
  note: required('<text>', 'what was done; stored in the log permanently: name no person', referenceText),
}

export const refundInput = {
  deposit: required('<id>', 'the deposit', id<DepositId>),
  cents: option(
    '<n>',
    'refund this amount, whole cents; default: all that is left',
    wholeNumber(1, maxCents),
  ),
  reason: required(
    '<text>',
    'stored in the log permanently: name no person; the same reason refunds a deposit once',
    referenceText,
  ),
}

export const resolveInput = {
  item: argument('<item>', 'its id, umv_…'),
  reason: required('<text>', 'stored in the log permanently: name no person', referenceText),
  account: option('<id>', 'book it to the wallet of this account', id<AccountId>),
}

export const reversalsInput = {
  kind: option('<kind>', 'only these', oneOf(reversalReasons)),
  limit: defaulted('<n>', 'at most this many', 100, wholeNumber(1, 1_000)),
}

export const commands = [
  ...resourceCommands(
    { name: 'deposits', one: 'deposit', exampleId: 'dep_…', statuses: shownDepositStatuses },
    async () => (await runs()).deposits,
  ),
  command({
    name: 'deposits changes',
    about: 'list changes that payment providers reported and that moved no money, from the read tables',
    input: {
      all: flag('include closed changes'),
      limit: defaulted('<n>', 'at most this many', 100, wholeNumber(1, 1_000)),
    },
    examples: ['bin/farebox deposits changes'],
    columns: {
      deposit: 'depositId',
      number: 'number',
      what: 'change',
      of: 'reference',
      amount: 'amount',
      gateway: 'gatewayId',
      reported: 'reportedAt',
      closed: 'reviewedAt',
    },
    run: async () => (await runs()).listChanges,
  }),
  command({
    name: 'deposits review',
    about: 'close a change that a payment provider reported, after a review; it moves no money',
    input: reviewInput,
    examples: [
      'bin/farebox deposits review dep_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b 1 --note "taken back by hand"',
    ],
    run: async () => (await runs()).review,
  }),
  command({
    name: 'deposits refund',
    about: 'refund a card payment to the payer, and take the amount from the wallet',
    input: refundInput,
    details: `The request is stored in the log. The server then makes the refund at Stripe, and books it as a refund that was made in
Stripe's dashboard. "deposits show" has the refunded amount a few seconds later. If Stripe does not make the refund, no
money moves, and "deposits changes" lists it.

Refused: a deposit that was not paid, an amount above what is left to refund or above the wallet's balance, payments of
BTCPay and NOWPayments, and payments at a reseller's own gateway.`,
    examples: [
      'bin/farebox deposits refund --deposit dep_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --reason "ticket 4711"',
      'bin/farebox deposits refund --deposit dep_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --cents 500 --reason "ticket 4712"',
    ],
    run: async () => (await runs()).refund,
  }),
  command({
    name: 'deposits reversals',
    about:
      'list disputes of payments of wallets, and refunds to their payers, newest first, from the read tables',
    input: reversalsInput,
    examples: ['bin/farebox deposits reversals --kind chargeback'],
    columns: {
      kind: 'reason',
      of: 'reversalId',
      state: 'state',
      amount: 'amount',
      taken: 'taken',
      deposit: 'depositId',
      account: 'accountId',
      blocked: ({ blocked }) => (blocked ? 'blocked' : null),
      since: 'openedAt',
    },
    run: async () => (await runs()).listReversals,
  }),
  command({
    name: 'deposits unmatched',
    about:
      "list refunds and disputes at the service's gateways without a known deposit, and objects there that cannot be read, from the read tables",
    input: {
      all: flag('include resolved ones'),
      limit: defaulted('<n>', 'at most this many', 100, wholeNumber(1, 1_000)),
    },
    columns: {
      item: 'itemId',
      kind: 'reason',
      of: 'reference',
      amount: 'amount',
      happened: 'happenedAt',
      resolved: 'resolvedAt',
      account: 'accountId',
    },
    run: async () => (await runs()).listUnmatched,
  }),
  command({
    name: 'deposits resolve',
    about:
      'resolve a refund or a dispute without a known deposit, with a reason; with --account its wallet is moved',
    input: resolveInput,
    details: `With --account, the amount is booked to the wallet as a deposit_refund or a chargeback, and the item is closed in the
same step. What the wallet does not cover is owed, and a chargeback blocks the account.`,
    examples: [
      'bin/farebox deposits resolve umv_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --reason "sale of another shop"',
      'bin/farebox deposits resolve umv_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --reason "paid by invoice 4711" --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b',
    ],
    run: async () => (await runs()).resolve,
  }),
  command({
    name: 'deposits auto-topup',
    about: 'show the automatic top-up of an account: its method, its card, its settings and its last failure',
    input: { account },
    examples: ['bin/farebox deposits auto-topup --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --json'],
    run: async () => (await runs()).showAutoTopup,
  }),
]
