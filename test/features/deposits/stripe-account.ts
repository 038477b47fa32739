import { createStripeGateway } from '../../../src/features/payments/stripe.ts'
import type { Send } from '../../../src/platform/outgoing/send.ts'

type Transaction = {
  readonly id: string
  readonly amount: number
  readonly currency: string
  readonly fee: number
  readonly created: number
}
type Refund = {
  readonly id: string
  status: 'pending' | 'succeeded' | 'failed' | 'canceled'
  /** In the payer's currency, which does not matter. */
  readonly amount: number
  taken: Transaction | null
  returned: Transaction | null
  readonly metadata: { readonly refund_id?: string }
}

type Dispute = { readonly id: string; readonly transactions: Transaction[] }

const created = 1_760_000_000

/**
 * An account at Stripe with one paid session, in the format of its API. What it did is the reference of a test: the
 * balance is the sum of its balance transactions.
 */
export const createStripeAccount = ({
  depositId,
  paidCents,
  settles,
}: {
  readonly depositId: string
  readonly paidCents: number
  /** The currency of the balance. */
  readonly settles: 'usd' | 'eur'
}) => {
  const refunds: Refund[] = []
  const disputes: Dispute[] = []
  const transactions: Transaction[] = []

  /** The refunds of API calls by their idempotency keys. */
  const keys = new Map<string, Refund>()
  let areRefundsPending = false
  const damaged = new Set<string>()
  const shown = (transaction: Transaction | null) =>
    transaction && damaged.has(transaction.id) ? { ...transaction, amount: 'much' } : transaction

  const move = (amount: number, fee: number): Transaction => {
    const id = `txn_${transactions.length}`
    const transaction = { id, amount, currency: settles, fee, created: created + transactions.length }
    transactions.push(transaction)
    return transaction
  }

  const session = {
    id: 'cs_1',
    object: 'checkout.session',
    amount_total: paidCents,
    currency: 'usd',
    payment_status: 'paid',
    status: 'complete',
    payment_intent: 'pi_1',
    metadata: { deposit_id: depositId },
  }
  const listOf = (data: readonly object[]) => ({ object: 'list', url: '/v1', has_more: false, data })
  const refundObject = ({ id, status, amount, taken, returned, metadata }: Refund) => ({
    id,
    object: 'refund',
    status,
    amount,
    charge: 'ch_1',
    currency: 'jpy',
    balance_transaction: shown(taken),
    failure_balance_transaction: shown(returned),
    metadata,
  })
  const leftCents = (): number =>
    refunds.reduce(
      (left, { taken, returned }) => left + (taken?.amount ?? 0) + (returned?.amount ?? 0),
      paidCents,
    )
  const addRefund = (cents: number, fee: number, pending: boolean, metadata: Refund['metadata']): Refund => {
    const refund: Refund = {
      id: `re_${refunds.length}`,
      status: pending ? 'pending' : 'succeeded',
      amount: cents * 150,
      taken: pending ? null : move(0 - cents, fee),
      returned: null,
      metadata,
    }
    refunds.push(refund)
    return refund
  }
  /** `POST /v1/refunds`. Null: the amount is above what is left. */
  const createRefund = (form: URLSearchParams, key: string): object | null => {
    const cents = Number(form.get('amount'))
    const known = keys.get(key)
    if (known === undefined && cents > leftCents()) return null
    const made =
      known ?? addRefund(cents, 0, areRefundsPending, { refund_id: form.get('metadata[refund_id]') ?? '' })
    keys.set(key, made)
    return refundObject(made)
  }
  const answerTo = (path: string, query: URLSearchParams): object | null => {
    if (path === '/v1/checkout/sessions/cs_1')
      return query.has('expand[0]')
        ? {
            ...session,
            ...(damaged.has(session.id) && { amount_total: 'much' }),
            payment_intent: { id: 'pi_1', currency: 'usd' },
          }
        : session
    if (path === '/v1/checkout/sessions')
      return listOf(query.get('payment_intent') === 'pi_1' ? [session] : [])
    if (path === '/v1/charges/ch_1') return { id: 'ch_1', object: 'charge', payment_intent: 'pi_1' }
    if (path === '/v1/refunds') return listOf(refunds.map(refundObject))
    const dispute = disputes.find(({ id }) => path === `/v1/disputes/${id}`)
    return dispute
      ? {
          id: dispute.id,
          object: 'dispute',
          charge: 'ch_1',
          payment_intent: 'pi_1',
          // In the payer's currency, which does not matter. So does the status.
          currency: 'jpy',
          amount: 99_999,
          status: 'needs_response',
          balance_transactions: dispute.transactions.map(shown),
        }
      : null
  }
  const send: Send = async (url, init) => {
    const { pathname, searchParams } = new URL(url)
    const isPost = init?.method === 'POST'
    const key = new Headers(init?.headers as Record<string, string>).get('idempotency-key') ?? ''
    const answer = isPost
      ? createRefund(new URLSearchParams(String(init.body)), key)
      : answerTo(pathname, searchParams)
    const error = { type: 'invalid_request_error', code: 'charge_already_refunded', message: 'none' }
    const body = answer ?? { error }
    return {
      status: answer === null ? (isPost ? 400 : 404) : 200,
      headers: new Headers(),
      text: async () => JSON.stringify(body),
    }
  }

  return {
    gateway: createStripeGateway({ secretKey: 'sk_test_unused', webhookSecret: 'whsec_unused' }, send),
    /** Refunds an amount. A pending refund has moved nothing yet. */
    refund: (cents: number, fee: number, pending: boolean): void => {
      addRefund(cents, fee, pending, {})
    },
    /** Forgets the idempotency keys, as Stripe does after a day. */
    forgetKeys: (): void => keys.clear(),
    /** Stripe shows the n-th movement, or the session, with an amount that is no number, or as it is. */
    damage: (n: number | 'session', isDamaged: boolean): void => {
      const id = n === 'session' ? session.id : transactions[n]!.id
      if (isDamaged) damaged.add(id)
      else damaged.delete(id)
    },
    /** Whether new refunds of API calls are pending. */
    delayRefunds: (isDelayed: boolean): void => {
      areRefundsPending = isDelayed
    },
    /** The refunds of API calls that are pending, in cents. */
    pendingCents: (): number =>
      refunds.reduce(
        (sum, { status, amount, metadata }) =>
          sum + (status === 'pending' && metadata.refund_id !== undefined ? amount / 150 : 0),
        0,
      ),
    /** The number of refunds that an API call with this id made. */
    countOf: (refundId: string): number =>
      refunds.filter(({ metadata }) => metadata.refund_id === refundId).length,
    /** Whether the refund of this API call failed or was canceled before it moved money. */
    isCanceled: (refundId: string): boolean =>
      refunds.some(
        ({ metadata, status, taken }) =>
          metadata.refund_id === refundId && taken === null && (status === 'failed' || status === 'canceled'),
      ),
    /** The n-th refund succeeds after it was pending, or fails. */
    end: (n: number, status: 'succeeded' | 'failed' | 'canceled', cents: number): void => {
      const refund = refunds[n % Math.max(refunds.length, 1)]
      if (!refund || refund.returned !== null) return
      if (status === 'succeeded') refund.taken ??= move(0 - cents, 0)
      else if (refund.taken !== null) refund.returned = move(0 - refund.taken.amount, 0)
      refund.status = status
    },
    /** Opens an inquiry, which moves nothing yet. */
    dispute: (): void => {
      disputes.push({ id: `dp_${disputes.length}`, transactions: [] })
    },
    /** The n-th dispute takes an amount with a fee, or returns it; at most the payment is out at a time. */
    moveDisputed: (n: number, cents: number, fee: number): void => {
      const dispute = disputes[n % Math.max(disputes.length, 1)]
      if (!dispute) return
      const outCents = 0 - dispute.transactions.reduce((sum, { amount }) => sum + amount, 0)
      const amount = Math.max(Math.min(cents, outCents), outCents - paidCents)
      dispute.transactions.push(move(amount, fee))
    },
    /** The references of all callbacks. */
    references: (): readonly string[] => [
      'session:cs_1',
      'charge:ch_1',
      ...disputes.map(({ id }) => `dispute:${id}`),
    ],
    /** What refunds and disputes moved so far, without fees, in cents. */
    movedCents: (): number => transactions.reduce((sum, { amount }) => sum + amount, 0),
    feeCents: (): number => transactions.reduce((sum, { fee }) => sum + fee, 0),
  }
}
