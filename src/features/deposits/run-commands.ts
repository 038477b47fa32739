import type { z } from 'zod'
import {
  findDeposit,
  listDeposits,
  listGatewayChanges,
  listUnmatchedMovements,
} from '../../../projections/deposits.ts'
import { reversalsAfter } from '../../../projections/reversals.ts'
import { accountRef } from '../../domain/accounts/fold.ts'
import type { DepositRefundRefusal } from '../../domain/deposits/decide-refund.ts'
import type { ShownDepositStatus } from '../../domain/deposits/fold.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { amountIn } from '../../kernel/money.ts'
import { wholeAccount } from '../../kernel/scopes.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import type { InputOf } from '../../platform/cli/input.ts'
import { type CliOutput, CliRefusal, dollars, notFound } from '../../platform/cli/output.ts'
import { readState } from '../../platform/commands/command.ts'
import type { ListedResource } from '../accounts/index.ts'
import { gatewayIdsOf } from '../payments/index.ts'
import { approvalNeeded } from '../wallet/index.ts'
import { readTopup } from './auto-topup.ts'
import type { refundInput, resolveInput, reversalsInput, reviewInput } from './commands.ts'
import { type DepositRecord, depositRecord } from './deposit-record.ts'
import { createDepositPages } from './deposit-urls.ts'
import { changeRecord, reviewChange } from './gateway-changes.ts'
import { refundRefusalText, requestDepositRefund } from './refund-deposit.ts'
import { reversalState } from './reversals.ts'
import { topupPauseText } from './topup-mails.ts'
import { topupRecord } from './topup-routes.ts'
import { itemAmount, resolutionRefusal, resolveUnmatched } from './unmatched-movements.ts'

type Shown = z.input<typeof DepositRecord>

export const deposits: ListedResource<Shown> = {
  owner: { table: 'read.deposits', id: 'deposit_id' },
  reads: (context) => {
    const { db, clock } = context
    const pages = createDepositPages(context)
    return {
      list: async (scope, page) => {
        const status = page.status as ShownDepositStatus | undefined
        const found = await listDeposits(db, scope, { ...page, status })
        const rows = found.deposits.map((row) => ({
          ...depositRecord(row, clock(), pages),
          accountId: row.accountId as AccountId,
        }))
        return { rows, total: found.total }
      },
      find: async (account, id) => {
        const found = await findDeposit(db, wholeAccount(account), id)
        return found ? depositRecord(found, clock(), pages) : null
      },
    }
  },
  fields: {
    deposit: 'deposit_id',
    status: 'status',
    method: 'method',
    amount: (row) => dollars(row.amount_cents),
    credited: (row) => dollars(row.credited_cents),
    'charged back': (row) => dollars(row.charged_back_cents),
    refunded: (row) => dollars(row.refunded_cents),
    order: 'order_id',
    customer: 'customer_id',
    'own id of the customer': 'customer',
    'created at': 'created_at',
    'paid at': 'paid_at',
    'expires at': 'expires_at',
    'pay page': 'pay_url',
  },
  columns: ['deposit', 'status', 'method', 'amount', 'credited', 'order', 'customer', 'created at'],
}

export const listChanges = async (
  { db }: CliContext,
  { all = false, limit }: { readonly all?: boolean; readonly limit: number },
) => {
  const rows = await listGatewayChanges(db, { all, limit, offset: 0 })
  const empty = all ? 'no changes were reported' : 'no open changes; --all includes closed ones'
  return { json: { changes: rows.map(changeRecord) }, rows, empty }
}

export const review = async (
  context: CliContext,
  { deposit: depositId, number, note }: InputOf<typeof reviewInput>,
) => {
  const answer = await reviewChange(context.runner, { depositId, number, note }, context)
  if (answer === 'unknown_change')
    throw notFound(`no deposit ${depositId} has a change ${number}; "deposits changes" shows them`)
  return {
    json: { depositId, number, outcome: answer },
    text: answer === 'reviewed' ? 'closed' : 'it was closed before',
  }
}

/** The refusal of a refund. */
export const depositRefundRefusal = (refusal: DepositRefundRefusal): CliRefusal => {
  const { code, ...figures } = refusal
  const message = refundRefusalText(refusal)
  return code === 'unknown_deposit' ? notFound(message) : new CliRefusal(code, message, figures)
}

export const refund = async (
  context: CliContext,
  { deposit: depositId, cents, reason: reference }: InputOf<typeof refundInput>,
): Promise<CliOutput> => {
  const input = { depositId, amountCents: cents ?? null, reference }
  const ownGatewayIds = gatewayIdsOf(context.config.payments)
  const answer = await requestDepositRefund({ ...context, ownGatewayIds }, input, context)
  if (answer.outcome === 'proposed' || answer.outcome === 'not_proposed') throw approvalNeeded(answer)
  if (answer.outcome === 'refused') throw depositRefundRefusal(answer.refusal)
  const { outcome, amountCents, provider } = answer
  return {
    json: { depositId, outcome, amountCents, currency: 'USD', provider },
    text: `requested a refund of ${dollars(amountCents)}; the server makes it at ${provider}, and "deposits show ${depositId}" shows it`,
  }
}

export const listReversals = async ({ db }: CliContext, { kind, limit }: InputOf<typeof reversalsInput>) => {
  const found = await reversalsAfter(db, { after: null, limit, search: '', reason: kind })
  const rows = found.map(({ rowId: _, ...row }) => ({
    ...row,
    state: reversalState(row),
    amount: amountIn(row.amountMicros, 'usd'),
    taken: amountIn(row.takenMicros, 'usd'),
  }))
  return { json: { reversals: rows }, rows, empty: 'no disputes and no refunds' }
}

export const listUnmatched = async (
  { db }: CliContext,
  { all = false, limit }: { readonly all?: boolean; readonly limit: number },
) => {
  const items = await listUnmatchedMovements(db, { all, limit, offset: 0 })
  const rows = items.map((item) => ({ ...item, amount: itemAmount(item) }))
  return {
    json: { items: rows },
    rows,
    empty: all ? 'none was reported' : 'no open ones; --all includes resolved ones',
  }
}

export const resolve = async (
  context: CliContext,
  { item: itemId, reason: note, account: accountId }: InputOf<typeof resolveInput>,
): Promise<CliOutput> => {
  const input = { itemId, accountId: accountId ?? null, note }
  const answer = await resolveUnmatched(context.runner, input, context)
  if (answer.outcome === 'proposed' || answer.outcome === 'not_proposed') throw approvalNeeded(answer)
  if (answer.outcome === 'refused') throw resolutionRefusal(answer.refusal)
  return {
    json: { itemId, outcome: answer.outcome, accountId: answer.accountId },
    text:
      answer.accountId === null
        ? 'resolved without a booking'
        : `booked to ${answer.accountId}, and resolved`,
  }
}

export const showAutoTopup = async (
  context: CliContext,
  { account }: { readonly account: AccountId },
): Promise<CliOutput> => {
  const { runner, clock } = context
  if ((await readState(runner, { ...context, name: 'read-account' }, accountRef(account))) === null)
    throw notFound('no account has this id; "accounts list" shows them')
  const record = topupRecord(await readTopup(runner, account, context), clock())
  const { enabled, method, card, thresholdCents, amountCents, targetBalanceCents, monthlyMaxCents, failure } =
    record
  const lines = [
    `automatic top-up: ${enabled ? `on, by ${method}` : 'off'}${record.pending ? ', a payment is open' : ''}`,
    `card: ${card ? `${card.brand} ending in ${card.lastFour}` : 'none'}`,
    ...(thresholdCents === null || monthlyMaxCents === null
      ? []
      : [
          `below ${dollars(thresholdCents)}: ${amountCents === null ? `up to ${dollars(targetBalanceCents ?? 0)}` : dollars(amountCents)}, at most ${dollars(monthlyMaxCents)} a month`,
        ]),
    `this month: ${dollars(record.monthCents)}`,
    ...(record.paused ? [topupPauseText(record.paused.reason)] : []),
    ...(failure
      ? [
          `last failure: ${failure.reason}, ${failure.failures} in a row, next attempt ${failure.retryAt ?? 'without a pause'}`,
        ]
      : []),
  ]
  return { json: { accountId: account, ...record }, text: lines.join('\n') }
}
