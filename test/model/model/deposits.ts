import { type Answer, type Deposit, differing, type Moment } from './actions.ts'
import { credit, customerOf } from './state.ts'

/** Smaller amounts are raised to it, whole cents (docs/reference/api.md, "Deposits"). */
const floorCents = { card: 1_000, crypto: 300 }

/** The expected refusal of a deposit; null if it is opened. */
const refusalOf = ({ world }: Moment, { account: name, key: held, customer }: Deposit) => {
  const account = world.accounts[name]!
  const key = account.keys[held]!
  if (key.revoked) return { status: 401, code: 'unauthorized' }
  if (!key.scopes.includes('buy')) return { status: 403, code: 'missing_scope' }
  if (account.blocked) return { status: 403, code: 'account_blocked' }
  return customer !== null && !account.reseller ? { status: 403, code: 'reseller_forbidden' } : null
}

/**
 * Checks an opened and paid deposit, and applies the received money to the world; returns the error, or null.
 */
export const judgeDeposit = (
  moment: Moment,
  deposit: Deposit,
  answer: Pick<Answer, 'status' | 'body'>,
  read: Answer['body'] | null,
): string | null => {
  const { account, customer, method, cents, payments } = deposit
  const paidCents = payments.reduce((sum, payment) => sum + payment, 0)
  const refusal = refusalOf(moment, deposit)
  if (refusal) {
    const { status, code } = refusal
    return answer.status === status
      ? differing(answer.body, { code })
      : `${answer.status} in place of ${status}`
  }
  const amountCents = Math.max(cents, floorCents[method])
  const opened =
    answer.status === 200
      ? differing(answer.body, { amount_cents: amountCents, status: 'awaiting_payment' })
      : `${answer.status} ${answer.body.code ?? ''} in place of 200`
  if (opened) return opened
  // A card is charged once, and NOWPayments, where the reseller's customers pay, ends with a part; the service's own
  // BTCPay waits for the rest.
  const waits = method === 'crypto' && customer === null
  const status = paidCents >= amountCents ? 'paid' : waits ? 'awaiting_payment' : 'partially_paid'
  const wrong = differing(read, {
    amount_cents: amountCents,
    credited_cents: paidCents,
    status,
    customer,
    method,
    for_order: false,
  })
  if (wrong) return wrong
  const { world } = moment
  if (customer !== null) customerOf(world, account, customer).creditCents += paidCents
  else for (const payment of payments) credit(world.accounts[account]!, 'deposit', payment)
  return null
}
