import Stripe from 'stripe'
import { z } from 'zod'
import type { TopupFailureReason } from '../../domain/deposits/topups.ts'
import {
  type BalanceMovement,
  type InvoiceReport,
  type InvoiceStatus,
  type MadeRefund,
  type Reversal,
  type ReversalReport,
  routeOf,
  type UncreditedPayment,
} from '../../domain/payments/payments.ts'
import { isoTime } from '../../kernel/clock.ts'
import { centsToMicros, micros } from '../../kernel/money.ts'
import type { Send } from '../../platform/outgoing/send.ts'
import { faultKind } from '../../platform/outgoing/target.ts'
import {
  type CallbackVerdict,
  type CardPaymentResult,
  type FoundChange,
  GatewayUnavailable,
  itemText,
  type PaymentGateway,
  type PaymentRefunds,
  readEach,
  type SavedCards,
  type SetupReport,
  type StripeCredentials,
  UnreadableAnswer,
} from './payment-port.ts'
import { jsonOf, statusText, unknownOnly } from './provider-http.ts'

/** The largest difference between a callback's time and now, in either direction. Stripe's own default. */
const toleranceS = 300
/** A charge has a few refunds. */
const maxRefunds = 1_000
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

const sessionStatuses: ReadonlySet<string> = new Set(['open', 'complete', 'expired'])
const paymentStatuses: ReadonlySet<string> = new Set(['paid', 'unpaid', 'no_payment_required'])
const intentStatuses: ReadonlySet<string> = new Set([
  'requires_payment_method',
  'requires_confirmation',
  'requires_action',
  'processing',
  'requires_capture',
  'canceled',
  'succeeded',
])

const unknownStatuses = (
  ...statuses: readonly (readonly [
    id: string,
    status: string | null | undefined,
    known: ReadonlySet<string>,
  ])[]
): readonly UncreditedPayment[] =>
  statuses.flatMap(([id, status, known]) =>
    status == null || known.has(status) ? [] : [{ id, status: statusText(status), amount: null }],
  )

const intentIn = ({ payment_intent }: Stripe.Checkout.Session): Stripe.PaymentIntent | null =>
  typeof payment_intent === 'object' ? payment_intent : null

const unknownInSession = (session: Stripe.Checkout.Session): readonly UncreditedPayment[] => {
  const intent = intentIn(session)
  return unknownStatuses(
    [session.id, session.status, sessionStatuses],
    [session.id, session.payment_status, paymentStatuses],
    [intent?.id ?? '', intent?.status, intentStatuses],
  )
}

const statusOf = (session: Stripe.Checkout.Session): InvoiceStatus => {
  if (session.status === 'expired') return 'expired'
  if (session.payment_status === 'paid') return 'paid'
  if (session.status === 'open' || session.status === null) return 'open'
  const failed = ['requires_payment_method', 'canceled'].includes(intentIn(session)?.status ?? '')
  return failed ? 'failed' : 'processing'
}

const depositIdOf = (session: Stripe.Checkout.Session | undefined): string | null =>
  session?.metadata?.deposit_id ?? session?.client_reference_id ?? null

/** In the smallest unit of the currency. */
const Amount = z.int().min(0)
/** Written to the log. */
const Currency = z.string().regex(/^\w{0,20}$/)

/** Credits `amount_total` in the session's currency, once per session, if the session is paid. */
export const reportOfSession = (session: Stripe.Checkout.Session): InvoiceReport => {
  const cents = session.payment_status === 'paid' ? Amount.parse(session.amount_total ?? 0) : 0
  return {
    kind: 'invoice',
    invoiceId: session.id,
    depositId: depositIdOf(session),
    currency: Currency.parse(session.currency ?? ''),
    status: statusOf(session),
    payments: cents > 0 ? [{ paymentId: session.id, amountMicros: centsToMicros(cents) }] : [],
    ...unknownOnly(unknownInSession(session)),
  }
}

const isIntentId = (id: string): boolean => id.startsWith('pi_')

/** The status of a payment by a saved card. Its payer is absent, so a payment that requires the payer has failed. */
const statusOfIntent = ({ status, last_payment_error }: Stripe.PaymentIntent): InvoiceStatus => {
  if (status === 'succeeded') return 'paid'
  if (status === 'processing' || !intentStatuses.has(status)) return 'processing'
  // Without an error the request that makes the payment was interrupted, and Stripe has not decided yet.
  const isFailed = status === 'requires_action' || status === 'canceled' || last_payment_error
  return isFailed ? 'failed' : 'open'
}

/** A payment of an automatic top-up; null for any other payment. It is credited once, under the id of its intent. */
const reportOfIntent = (intent: Stripe.PaymentIntent): InvoiceReport | null => {
  const { id, currency, status, amount_received, metadata } = intent
  if (!metadata.topup_id) return null
  const cents = status === 'succeeded' ? Amount.parse(amount_received) : 0
  return {
    kind: 'invoice',
    invoiceId: id,
    depositId: metadata.deposit_id ?? null,
    currency: Currency.parse(currency),
    status: statusOfIntent(intent),
    payments: cents > 0 ? [{ paymentId: id, amountMicros: centsToMicros(cents) }] : [],
    ...unknownOnly(unknownStatuses([id, status, intentStatuses])),
  }
}

const failureOf = (code: string | null | undefined): TopupFailureReason => {
  switch (code) {
    case 'authentication_required':
    case 'expired_card':
    case 'card_declined':
      return code
    case 'resource_missing':
    case 'payment_method_unactivated':
      return 'card_removed'
    default:
      return 'payment_failed'
  }
}

/** Null: Stripe has not decided, because the request that makes the payment was interrupted. */
const resultOf = (intent: Stripe.PaymentIntent): CardPaymentResult | null => {
  const status = statusOfIntent(intent)
  if (status === 'open') return null
  if (status !== 'failed') return { paymentId: intent.id, startedAt: isoTime(intent.created * 1000) }
  if (intent.status === 'requires_action') return { failed: 'authentication_required' }
  return { failed: failureOf(intent.last_payment_error?.code) }
}

/** The card of a setup session. */
const reportOfSetup = (session: Stripe.Checkout.Session): SetupReport => {
  const { id, client_reference_id: accountId, customer, setup_intent: setup } = session
  const method = typeof setup === 'object' ? setup?.payment_method : null
  const customerReference = idOf(customer)
  const isSaved = typeof setup === 'object' && setup?.status === 'succeeded'
  if (!isSaved || customerReference === null || typeof method !== 'object' || !method?.card)
    return { kind: 'setup', accountId, card: null }
  const { brand, last4: lastFour } = method.card
  return {
    kind: 'setup',
    accountId,
    card: { setupId: id, customerReference, methodReference: method.id, brand, lastFour },
  }
}

/** The currencies whose amounts at Stripe have other than two decimals: https://docs.stripe.com/currencies. */
const otherDecimals: ReadonlyMap<string, number> = new Map([
  ...'bif clp djf gnf jpy kmf krw mga pyg rwf vnd vuv xaf xof xpf'.split(' ').map((one) => [one, 0] as const),
  ...'bhd jod kwd omr tnd'.split(' ').map((one) => [one, 3] as const),
])

/** What is read of a balance transaction. Its amounts are in the smallest unit of the currency that Stripe settled. */
const Transaction = z.object({
  id: z.string().regex(/^[\x21-\x7e]{1,200}$/),
  amount: z.int(),
  currency: Currency,
  fee: z.int(),
  created: z.int().min(0).max(253_402_300_799),
})

/** Reads an object without a request. */
const readable = <Value>(what: string, read: () => Value): Value => {
  try {
    return read()
  } catch {
    throw new UnreadableAnswer(`stripe: ${what} outside its documentation`)
  }
}

const movementOf = (transaction: Stripe.BalanceTransaction): BalanceMovement => {
  const { id, amount, currency, fee, created } = Transaction.parse(transaction)
  const unitMicros = 10 ** (6 - (otherDecimals.get(currency) ?? 2))
  return {
    transactionId: id,
    currency,
    amountMicros: micros(amount * unitMicros),
    feeMicros: micros(fee * unitMicros),
    at: isoTime(created * 1000),
  }
}

/** A field that was requested in full. Null: the refund has none, so it has not moved money in this direction. */
const isTransaction = (
  transaction: string | Stripe.BalanceTransaction | null | undefined,
): transaction is Stripe.BalanceTransaction => typeof transaction === 'object' && transaction !== null

const reversalOf = (refund: Stripe.Refund): Reversal => {
  const { id, status, metadata, balance_transaction, failure_balance_transaction } = refund
  const refundId = metadata?.refund_id
  return {
    reason: 'deposit_refund',
    reversalId: id,
    ...(refundId && { request: { refundId, isOver: status === 'failed' || status === 'canceled' } }),
    movements: [balance_transaction, failure_balance_transaction].filter(isTransaction).map(movementOf),
  }
}

/** The movements of a dispute, in the order of time. Of one second, those that took money are first. An inquiry has none. */
const movementsOf = ({ balance_transactions }: Stripe.Dispute): readonly BalanceMovement[] =>
  balance_transactions
    .toSorted((one, other) => one.created - other.created || one.amount - other.amount)
    .map(movementOf)

/** The ids of the movements of a dispute, which may be unreadable otherwise. */
const movedIds = ({ balance_transactions: moved }: Stripe.Dispute): readonly string[] =>
  Array.isArray(moved) ? moved.map((one) => String(idOf(one))).sort() : ['unreadable']

/** The used parts of an event. A thin event names its object and does not contain it; Farebox needs none of these. */
const Event = z.object({
  id: z.string(),
  type: z.string(),
  data: z
    .object({
      object: z.object({
        id: z.string(),
        charge: z.union([z.string(), z.object({ id: z.string() })]).nullish(),
      }),
    })
    .optional()
    .catch(undefined),
})

const referenceOf = ({ type, data }: z.output<typeof Event>): string | null => {
  if (data === undefined) return null
  const { id, charge } = data.object
  if (type.startsWith('checkout.session.')) return `session:${id}`
  if (type.startsWith('payment_intent.')) return `intent:${id}`
  if (type.startsWith('charge.dispute.')) return `dispute:${id}`
  if (type === 'charge.refunded') return `charge:${id}`
  if (type.startsWith('refund.') || type === 'charge.refund.updated')
    return idOf(charge) === null ? null : `charge:${idOf(charge)}`
  return null
}

const madeRefundOf = ({ id, charge }: Stripe.Refund): MadeRefund => ({
  providerRefundId: id,
  reference: `charge:${idOf(charge)}`,
})

/** Whether Stripe made no refund and would answer a repetition in the same way. */
const isRefusal = (error: unknown): error is InstanceType<typeof Stripe.errors.StripeError> =>
  error instanceof Stripe.errors.StripeInvalidRequestError ||
  error instanceof Stripe.errors.StripePermissionError

/**
 * Stripe Checkout through the official package. Payments, disputes and refunds are read from the session, the dispute
 * and the charge. A session is credited once, under its own id.
 */
export const createStripeGateway = (
  credentials: StripeCredentials,
  send: Send,
  {
    endpoint,
    adaptivePricing = false,
  }: {
    readonly endpoint?: StripeEndpoint
    /** Whether payers may pay in their own currency. The session has the invoiced currency and amount either way. */
    readonly adaptivePricing?: boolean
  } = {},
): PaymentGateway => {
  const stripe = clientOf(credentials.secretKey, send, endpoint)

  const readIntent = async (intentId: string): Promise<InvoiceReport | null> => {
    const intent = await orNull(() => stripe.paymentIntents.retrieve(intentId))
    return intent && readable('a payment', () => reportOfIntent(intent))
  }

  const readInvoice = async (invoiceId: string): Promise<InvoiceReport | null> => {
    if (isIntentId(invoiceId)) return readIntent(invoiceId)
    const session = await orNull(() =>
      stripe.checkout.sessions.retrieve(invoiceId, { expand: ['payment_intent'] }),
    )
    return session && readable('a session', () => reportOfSession(session))
  }

  /** A session that pays, or one that saves a card. */
  const readSession = async (sessionId: string): Promise<InvoiceReport | SetupReport | null> => {
    const session = await orNull(() =>
      stripe.checkout.sessions.retrieve(sessionId, { expand: ['payment_intent'] }),
    )
    if (session?.mode !== 'setup') return session && readable('a session', () => reportOfSession(session))
    // Read separately, because a key for payments alone may not read setup intents.
    const setup = await orNull(() =>
      stripe.checkout.sessions.retrieve(sessionId, { expand: ['setup_intent.payment_method'] }),
    )
    return setup && reportOfSetup(setup)
  }

  const sessionOf = async (intent: string): Promise<Stripe.Checkout.Session | undefined> => {
    const { data } = await callStripe(() =>
      stripe.checkout.sessions.list({ payment_intent: intent, limit: 1 }),
    )
    return data[0]
  }

  /** Null: the payment was not made by a session of Farebox. */
  const depositOfIntent = async (intent: Stripe.Charge['payment_intent']): Promise<string | null> => {
    const intentId = idOf(intent)
    if (intentId === null) return null
    const session = await sessionOf(intentId)
    return session ? depositIdOf(session) : ((await readIntent(intentId))?.depositId ?? null)
  }

  const readDispute = async (disputeId: string): Promise<ReversalReport | null> => {
    const dispute = await orNull(() => stripe.disputes.retrieve(disputeId))
    if (dispute === null) return null
    const movements = readable('a dispute', () => movementsOf(dispute))
    return {
      kind: 'reversals',
      depositId: await depositOfIntent(dispute.payment_intent),
      reversals: [{ reason: 'chargeback', reversalId: dispute.id, movements }],
    }
  }

  /**
   * The refunds of a charge, each with its own balance transactions. The charge's `amount_refunded` is not used: it is
   * cumulative and in the payer's currency.
   */
  const readRefunds = async (chargeId: string): Promise<ReversalReport | null> => {
    const charge = await orNull(() => stripe.charges.retrieve(chargeId))
    if (charge === null) return null
    const depositId = await depositOfIntent(charge.payment_intent)
    const refunds = await callStripe(() =>
      stripe.refunds
        .list({
          charge: chargeId,
          limit: 100,
          expand: ['data.balance_transaction', 'data.failure_balance_transaction'],
        })
        .autoPagingToArray({ limit: maxRefunds }),
    )
    const { values: reversals, ...others } = readEach(
      refunds,
      ({ id }) => String(id),
      (refund) => readable('a refund', () => reversalOf(refund)),
    )
    return { kind: 'reversals', depositId, reversals, ...others }
  }

  /** Refunds since then; empty if the key may not read them. */
  const refundsSince = async (created: Stripe.RangeQueryParam): Promise<readonly FoundChange[]> => {
    const changes: FoundChange[] = []
    try {
      for await (const refund of stripe.refunds.list({ created, limit: 100 })) {
        const charge = idOf(refund.charge)
        const { id, status, balance_transaction, failure_balance_transaction } = refund
        const moved = [balance_transaction, failure_balance_transaction]
          .map(idOf)
          .filter((one) => one !== null)
        if (charge !== null)
          changes.push({ eventId: ['found', id, status, ...moved].join(' '), reference: `charge:${charge}` })
      }
    } catch (error) {
      if (!(error instanceof Stripe.errors.StripePermissionError)) throw error
    }
    return changes
  }

  /** @param sessionId the session, or the intent of an automatic top-up */
  const intentOf = async (sessionId: string): Promise<Stripe.PaymentIntent | null> => {
    if (isIntentId(sessionId)) return orNull(() => stripe.paymentIntents.retrieve(sessionId))
    const session = await orNull(() =>
      stripe.checkout.sessions.retrieve(sessionId, { expand: ['payment_intent'] }),
    )
    const intent = session?.payment_intent
    return typeof intent === 'object' ? (intent ?? null) : null
  }

  const refunds: PaymentRefunds = {
    find: async ({ paymentId, refundId }) => {
      const intent = await intentOf(paymentId)
      if (intent === null) return null
      const made = await callStripe(() =>
        stripe.refunds
          .list({ payment_intent: intent.id, limit: 100 })
          .autoPagingToArray({ limit: maxRefunds }),
      )
      const found = made.find(({ metadata }) => metadata?.refund_id === refundId)
      return found === undefined ? null : madeRefundOf(found)
    },
    create: async ({ paymentId, refundId, amountCents }) => {
      const intent = await intentOf(paymentId)
      if (intent === null) return { refused: 'resource_missing' }
      // The amount is in the currency of the payment.
      if (intent.currency !== 'usd') return { refused: 'other_currency' }
      try {
        const made = await stripe.refunds.create(
          { payment_intent: intent.id, amount: amountCents, metadata: { refund_id: refundId } },
          { idempotencyKey: refundId },
        )
        return madeRefundOf(made)
      } catch (error) {
        if (isRefusal(error)) return { refused: error.code ?? 'invalid_request' }
        throw unavailable(error)
      }
    },
  }

  const cards: SavedCards = {
    createPage: ({ accountId, returnUrl }) =>
      callStripe(async () => {
        const { url } = await stripe.checkout.sessions.create({
          mode: 'setup',
          currency: 'usd',
          customer_creation: 'always',
          allowed_payment_method_types: ['card'],
          client_reference_id: accountId,
          // Stripe replaces the name in braces.
          success_url: `${returnUrl}?session={CHECKOUT_SESSION_ID}`,
          cancel_url: returnUrl,
        })
        if (!url) throw new GatewayUnavailable('stripe: the session has no page')
        return url
      }),
    find: async ({ topupId, method: { customerReference: customer } }) => {
      const intents = await callStripe(() =>
        stripe.paymentIntents.list({ customer, limit: 100 }).autoPagingToArray({ limit: 1_000 }),
      )
      const found = intents.find(({ metadata }) => metadata.topup_id === topupId)
      return found === undefined ? null : resultOf(found)
    },
    pay: async ({ topupId, depositId, method, amountCents }) => {
      try {
        const intent = await stripe.paymentIntents.create(
          {
            amount: amountCents,
            currency: 'usd',
            customer: method.customerReference,
            payment_method: method.methodReference,
            allowed_payment_method_types: ['card'],
            off_session: true,
            confirm: true,
            metadata: { deposit_id: depositId, topup_id: topupId },
          },
          // The caller repeats it, after it has checked that the card is still saved.
          { idempotencyKey: topupId, maxNetworkRetries: 0 },
        )
        const result = resultOf(intent)
        if (result === null)
          throw new GatewayUnavailable(`stripe: a payment with the status ${intent.status}`)
        return result
      } catch (error) {
        // Any other error, such as a key that another call uses, leaves the result unknown.
        if (
          error instanceof Stripe.errors.StripeError &&
          !(error instanceof Stripe.errors.StripeIdempotencyError) &&
          [400, 402, 404].includes(error.statusCode ?? 0)
        )
          return { failed: failureOf(error.code) }
        throw unavailable(error)
      }
    },
    remove: async ({ methodReference }) => {
      try {
        await stripe.paymentMethods.detach(methodReference)
      } catch (error) {
        if (!(error instanceof Stripe.errors.StripeInvalidRequestError)) throw unavailable(error)
      }
    },
  }

  return {
    provider: 'stripe',
    refunds,
    cards,
    readInvoice: ({ invoiceId }) => readInvoice(invoiceId),
    closeInvoice: async (sessionId) => {
      try {
        await stripe.checkout.sessions.expire(sessionId)
      } catch (error) {
        // It was paid or has expired meanwhile. The next poll reads that.
        if (!(error instanceof Stripe.errors.StripeInvalidRequestError)) throw unavailable(error)
      }
    },
    fetch: (reference) => {
      const [kind, id = ''] = reference.split(':', 2)
      if (kind === 'charge') return readRefunds(id)
      if (kind === 'intent') return readIntent(id)
      return kind === 'dispute' ? readDispute(id) : readSession(id)
    },
    changesSince: (sinceMs) =>
      callStripe(async () => {
        const changes: FoundChange[] = []
        const created = { gte: Math.floor(sinceMs / 1000) }
        for await (const dispute of stripe.disputes.list({ created, limit: 100 })) {
          const moved = movedIds(dispute)
          if (moved.length === 0) continue
          changes.push({
            eventId: ['found', dispute.id, ...moved].join(' '),
            reference: `dispute:${dispute.id}`,
          })
        }
        return [...changes, ...(await refundsSince(created))]
      }),
    createInvoice: (request) =>
      callStripe(async () => {
        const { depositId, amountCents, rail, returnUrl } = request
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
                  product_data: { name: itemText(request) },
                },
              },
            ],
            allowed_payment_method_types: [route.name as 'card'],
            adaptive_pricing: { enabled: adaptivePricing },
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
        stripe.webhooks.signature!.verifyHeader(
          raw,
          signature,
          credentials.webhookSecret,
          toleranceS,
          undefined,
          nowMs,
        )
      } catch {
        return { ok: false, why: 'signature or age' }
      }
      const event = Event.safeParse(jsonOf(raw))
      if (!event.success) return { ok: false, why: 'no event' }
      return { ok: true, callback: { eventId: event.data.id, reference: referenceOf(event.data) } }
    },
  }
}
