import Stripe from 'stripe'
import {
  type ChangeReport,
  type DisputeReport,
  type InvoiceReport,
  type InvoiceStatus,
  routeOf,
} from '../../domain/payments/payments.ts'
import { isoTime } from '../../kernel/clock.ts'
import { centsToMicros } from '../../kernel/money.ts'
import type { Send } from '../../platform/outgoing/send.ts'
import { faultKind } from '../../platform/outgoing/target.ts'
import {
  type CallbackVerdict,
  type FoundChange,
  GatewayUnavailable,
  type PaymentGateway,
  type StripeCredentials,
} from './payment-port.ts'

/** The largest difference between a callback's time and now, in either direction. Stripe's own default. */
const toleranceS = 300
/** A delayed payment (such as a bank debit) is decided within two weeks. */
const watchedAfterExpiryMs = 14 * 24 * 60 * 60 * 1000

type StripeEndpoint = {
  readonly host: string
  readonly port: number
  readonly protocol: 'http' | 'https'
}

const clientOf = (secretKey: string, send: Send, endpoint?: StripeEndpoint): Stripe =>
  new Stripe(secretKey, {
    ...endpoint,
    maxNetworkRetries: 1,
    timeout: 12_000,
    telemetry: false,
    httpClient: Stripe.createFetchHttpClient(((url: string | URL, init: RequestInit) =>
      send(String(url), init as never)) as never),
  })

const idOf = (value: string | { readonly id: string } | null | undefined): string | null =>
  typeof value === 'string' ? value : (value?.id ?? null)

/** A refusal or missing answer of Stripe. Without its text, which may name a payer. */
const unavailable = (error: unknown): GatewayUnavailable => {
  if (error instanceof GatewayUnavailable) return error
  if (!(error instanceof Stripe.errors.StripeError))
    return new GatewayUnavailable(`stripe: ${faultKind(error)}`)
  const { type, code, statusCode, detail } = error
  const kinds = [type, code, statusCode, detail instanceof Error ? faultKind(detail) : null]
  const parts = kinds.filter((kind) => /^\w{1,60}$/.test(String(kind ?? '')))
  return new GatewayUnavailable(`stripe: ${parts.join(' ')}`)
}

const callStripe = async <Value>(call: () => Promise<Value>): Promise<Value> => {
  try {
    return await call()
  } catch (error) {
    throw unavailable(error)
  }
}

const orNull = async <Value>(call: () => Promise<Value>): Promise<Value | null> => {
  try {
    return await call()
  } catch (error) {
    if ((error as { statusCode?: number }).statusCode === 404) return null
    throw unavailable(error)
  }
}

const statusOf = (session: Stripe.Checkout.Session): InvoiceStatus => {
  if (session.status === 'expired') return 'expired'
  if (session.payment_status === 'paid') return 'paid'
  if (session.status !== 'complete') return 'open'
  const intent = session.payment_intent
  const failed =
    typeof intent === 'object' && ['requires_payment_method', 'canceled'].includes(intent?.status ?? '')
  return failed ? 'failed' : 'processing'
}

const depositIdOf = (session: Stripe.Checkout.Session | undefined): string | null =>
  session?.metadata?.deposit_id ?? session?.client_reference_id ?? null

/** Credits `amount_total` in the session's currency, once per session, if the session is paid. */
export const reportOfSession = (session: Stripe.Checkout.Session): InvoiceReport => {
  const cents = session.payment_status === 'paid' ? (session.amount_total ?? 0) : 0
  return {
    kind: 'invoice',
    invoiceId: session.id,
    depositId: depositIdOf(session),
    currency: session.currency ?? '',
    status: statusOf(session),
    payments: cents > 0 ? [{ paymentId: session.id, amountMicros: centsToMicros(cents) }] : [],
  }
}

/** An amount in the smallest unit of its currency, for people: `12.50 eur`. */
const amountText = (amount: number, currency: string): string => {
  const { maximumFractionDigits = 2 } = new Intl.NumberFormat('en', {
    style: 'currency',
    currency,
  }).resolvedOptions()
  return `${(amount / 10 ** maximumFractionDigits).toFixed(maximumFractionDigits)} ${currency}`
}

/**
 * The state of a dispute, from the sum of its balance transactions, "funds withdrawn and reinstated" as a result of the
 * dispute. If no money moved, the state follows from the status: an inquiry and a prevented dispute took nothing.
 * `adjusted` is the sum if it is neither the disputed amount nor 0, such as after a partial return, or if the amount
 * was taken again after its return. A sum in another currency than the dispute's cannot be compared, except for a full
 * return.
 */
export const disputeStateOf = ({
  status,
  amount,
  currency,
  balance_transactions: transactions,
}: Pick<Stripe.Dispute, 'status' | 'amount' | 'currency' | 'balance_transactions'>): Pick<
  DisputeReport,
  'state' | 'adjusted'
> => {
  const movements = transactions.filter((transaction) => transaction.amount !== 0)
  if (movements.length > 0) {
    const net = movements.reduce((sum, transaction) => sum + transaction.amount, 0)
    const isComparable = movements.every((transaction) => transaction.currency === currency)
    const isGivenBack = movements.some((transaction) => transaction.amount > 0)
    const isUsual = net === 0 || (!isGivenBack && net < 0 && (!isComparable || net === 0 - amount))
    return {
      state: net < 0 ? 'withdrawn' : 'reinstated',
      ...(!isUsual && { adjusted: amountText(net, movements[0]?.currency ?? currency) }),
    }
  }
  if (status.startsWith('warning') || status === 'prevented') return { state: 'inquiry' }
  return { state: status === 'won' ? 'reinstated' : 'withdrawn' }
}

const referenceOf = ({ type, data }: Stripe.Event): string | null => {
  const { id, charge } = data.object as { id?: string; charge?: string | { readonly id: string } | null }
  if (type.startsWith('checkout.session.')) return `session:${id}`
  if (type.startsWith('charge.dispute.')) return `dispute:${id}`
  if (type === 'charge.refunded') return `charge:${id}`
  if (type.startsWith('refund.') || type === 'charge.refund.updated')
    return idOf(charge) === null ? null : `charge:${idOf(charge)}`
  return null
}

/**
 * Stripe Checkout through the official package. Payments, disputes and refunds are read from the session, the dispute
 * and the charge. A session is credited once, under its own id.
 */
export const createStripeGateway = (
  credentials: StripeCredentials,
  send: Send,
  endpoint?: StripeEndpoint,
): PaymentGateway => {
  const stripe = clientOf(credentials.secretKey, send, endpoint)

  const readInvoice = async (invoiceId: string): Promise<InvoiceReport | null> => {
    const session = await orNull(() =>
      stripe.checkout.sessions.retrieve(invoiceId, { expand: ['payment_intent'] }),
    )
    return session && reportOfSession(session)
  }

  const sessionOf = async (intent: string): Promise<Stripe.Checkout.Session | undefined> => {
    const { data } = await callStripe(() =>
      stripe.checkout.sessions.list({ payment_intent: intent, limit: 1 }),
    )
    return data[0]
  }

  const readDispute = async (disputeId: string): Promise<DisputeReport | null> => {
    const dispute = await orNull(() => stripe.disputes.retrieve(disputeId))
    const intent = idOf(dispute?.payment_intent)
    if (dispute === null || intent === null) return null
    const session = await sessionOf(intent)
    return {
      kind: 'dispute',
      disputeId: dispute.id,
      invoiceId: session?.id ?? null,
      depositId: depositIdOf(session),
      currency: dispute.currency,
      amountMicros: centsToMicros(dispute.amount),
      ...disputeStateOf(dispute),
    }
  }

  /** The refunded amount of a charge; 0 if its only refund failed. */
  const readRefunds = async (chargeId: string): Promise<ChangeReport | null> => {
    const charge = await orNull(() => stripe.charges.retrieve(chargeId))
    const intent = idOf(charge?.payment_intent)
    if (charge === null || intent === null) return null
    const { id: reference, amount_refunded, currency } = charge
    const depositId = depositIdOf(await sessionOf(intent))
    return {
      kind: 'change',
      change: 'refunded',
      reference,
      depositId,
      amount: amountText(amount_refunded, currency),
    }
  }

  /** Refunds since then; empty if the key may not read them. */
  const refundsSince = async (created: Stripe.RangeQueryParam): Promise<readonly FoundChange[]> => {
    const changes: FoundChange[] = []
    try {
      for await (const refund of stripe.refunds.list({ created, limit: 100 })) {
        const charge = idOf(refund.charge)
        if (charge !== null)
          changes.push({ eventId: `found ${refund.id} ${refund.status}`, reference: `charge:${charge}` })
      }
    } catch (error) {
      if (!(error instanceof Stripe.errors.StripePermissionError)) throw error
    }
    return changes
  }

  return {
    provider: 'stripe',
    readInvoice: ({ invoiceId }) => readInvoice(invoiceId),
    fetch: (reference) => {
      const [kind, id = ''] = reference.split(':', 2)
      if (kind === 'charge') return readRefunds(id)
      return kind === 'dispute' ? readDispute(id) : readInvoice(id)
    },
    changesSince: (sinceMs) =>
      callStripe(async () => {
        const changes: FoundChange[] = []
        const created = { gte: Math.floor(sinceMs / 1000) }
        for await (const dispute of stripe.disputes.list({ created, limit: 100 })) {
          const { state, adjusted } = disputeStateOf(dispute)
          if (state === 'inquiry' && adjusted === undefined) continue
          const eventId = `found ${dispute.id} ${state}${adjusted === undefined ? '' : ` ${adjusted}`}`
          changes.push({ eventId, reference: `dispute:${dispute.id}` })
        }
        return [...changes, ...(await refundsSince(created))]
      }),
    createInvoice: (request) =>
      callStripe(async () => {
        const { depositId, amountCents, rail, merchantName, returnUrl } = request
        const route = routeOf(rail, 'stripe')
        if (route === null) throw new GatewayUnavailable(`stripe: ${rail} is not served`)
        const session = await stripe.checkout.sessions.create(
          {
            mode: 'payment',
            line_items: [
              {
                quantity: 1,
                price_data: {
                  currency: route.currency,
                  unit_amount: amountCents,
                  product_data: { name: `${merchantName}: account credit` },
                },
              },
            ],
            allowed_payment_method_types: [route.name as 'card'],
            ...(route.name === 'wechat_pay'
              ? { payment_method_options: { wechat_pay: { client: 'web' as const } } }
              : {}),
            client_reference_id: depositId,
            metadata: { deposit_id: depositId },
            payment_intent_data: { metadata: { deposit_id: depositId } },
            success_url: returnUrl,
            cancel_url: returnUrl,
          },
          { idempotencyKey: depositId },
        )
        if (!session.url) throw new GatewayUnavailable('stripe: the session has no page')
        const expiresMs = session.expires_at * 1000
        return {
          invoiceId: session.id,
          payUrl: session.url,
          expiresAt: isoTime(expiresMs),
          watchUntil: isoTime(expiresMs + watchedAfterExpiryMs),
        }
      }),
    verify: (raw, headers, nowMs): CallbackVerdict => {
      const signature = headers['stripe-signature']
      if (typeof signature !== 'string') return { ok: false, why: 'no Stripe-Signature' }
      // The package checks only that the time is not too old: a future time would be accepted.
      const signedAtS = Number(/(?:^|,)t=(\d+)/.exec(signature)?.[1])
      if (signedAtS * 1000 > nowMs + toleranceS * 1000) return { ok: false, why: 'signed in the future' }
      try {
        const event = stripe.webhooks.constructEvent(
          raw,
          signature,
          credentials.webhookSecret,
          toleranceS,
          undefined,
          nowMs,
        )
        return { ok: true, callback: { eventId: event.id, reference: referenceOf(event) } }
      } catch (error) {
        return { ok: false, why: (error as Error).name === 'SyntaxError' ? 'no JSON' : 'signature or age' }
      }
    },
  }
}
