import type { IncomingHttpHeaders } from 'node:http'
import { z } from 'zod'
import type { SavedMethod, TopupFailureReason } from '../../domain/deposits/topups.ts'
import type {
  GatewayReport,
  InvoiceReport,
  MadeRefund,
  Provider,
  Rail,
} from '../../domain/payments/payments.ts'
import type { AccountId, DepositId } from '../../kernel/ids.ts'
import { amountIn, centsToMicros } from '../../kernel/money.ts'

const text = z.string().regex(/^[\x21-\x7e]{1,500}$/)

/** The credentials of each provider. They are sealed in the vault, and never in an event, a log or an answer. */
export const credentialShapes = {
  stripe: z.strictObject({
    /** A secret or restricted key of the account. */
    secretKey: z.string().regex(/^(sk|rk)_(test|live)_[A-Za-z0-9_]{1,300}$/),
    /** The signing secret of the webhook endpoint. */
    webhookSecret: z.string().regex(/^whsec_[\x21-\x7e]{1,300}$/),
  }),
  btcpay: z.strictObject({
    /** The server's URL, e.g. `https://pay.example.com`. */
    url: z
      .string()
      .max(2_000)
      .refine((value) => {
        const url = URL.parse(value)
        return url?.protocol === 'https:' && url.username === '' && url.password === '' && url.search === ''
      }),
    storeId: z.string().regex(/^[A-Za-z0-9]{1,100}$/),
    apiKey: text,
    webhookSecret: text,
  }),
  nowpayments: z.strictObject({
    apiKey: text,
    ipnSecret: text,
    /** The account's e-mail. Listing the payments of an invoice, which finds lost callbacks, requires a login. */
    email: z.email(),
    password: z.string().min(1).max(500),
  }),
} as const

export type StripeCredentials = z.infer<typeof credentialShapes.stripe>
export type BtcpayCredentials = z.infer<typeof credentialShapes.btcpay>
export type NowpaymentsCredentials = z.infer<typeof credentialShapes.nowpayments>

/** Credentials of a real provider. */
export const realCredentials = z.discriminatedUnion('provider', [
  credentialShapes.stripe.extend({ provider: z.literal('stripe') }),
  credentialShapes.btcpay.extend({ provider: z.literal('btcpay') }),
  credentialShapes.nowpayments.extend({ provider: z.literal('nowpayments') }),
])
export type RealCredentials = z.infer<typeof realCredentials>

/** A provider in the sandbox, if this installation runs one. */
export const sandboxCredentials = z.strictObject({
  provider: z.enum(['stripe', 'btcpay', 'nowpayments']),
  sandbox: z.literal(true),
})

export const gatewayCredentials = z.union([realCredentials, sandboxCredentials])
export type GatewayCredentials = z.infer<typeof gatewayCredentials>

export const isSandbox = (
  credentials: GatewayCredentials,
): credentials is z.infer<typeof sandboxCredentials> => 'sandbox' in credentials

/** The fields of a new invoice. Each request for the same deposit has the same fields, so that a retry converges. */
type InvoiceRequest = {
  /** The provider's idempotency key, and the reference in its answers. */
  readonly depositId: DepositId
  /** Whole cents in USD. */
  readonly amountCents: number
  /** The debt of the payer, which the payment pays first; whole cents. Absent: none. */
  readonly owedCents?: number | undefined
  readonly rail: Rail
  /** Shown on the pay page. */
  readonly merchantName: string
  /** The page to which the payer returns. */
  readonly returnUrl: string
  /** The URL of this gateway's callbacks. */
  readonly callbackUrl: string
}

/** The text of the pay page: what the payment is for, and the debt that it pays first. */
export const itemText = ({
  merchantName,
  owedCents = 0,
}: Pick<InvoiceRequest, 'merchantName' | 'owedCents'>): string => {
  const text = `${merchantName}: account credit`
  return owedCents === 0 ? text : `${text}, ${amountIn(centsToMicros(owedCents), 'USD')} of it for a debt`
}

export type CreatedInvoice = {
  readonly invoiceId: string
  readonly payUrl: string
  /** ISO 8601 UTC. The end of the time to pay. */
  readonly expiresAt: string
  /** ISO 8601 UTC. Until then the provider still detects late payments. */
  readonly watchUntil: string
}

/** A callback with a valid signature. Only its reference is used; its content is never trusted. */
export type Callback = {
  /** Unique for the gateway; the same for each delivery of an event. */
  readonly eventId: string
  /** The argument of `fetch`; null if the event is irrelevant. */
  readonly reference: string | null
}

/** A dispute or a refund that polling found, in the form of a callback. */
export type FoundChange = {
  /** The same each time that it is found in this state. */
  readonly eventId: string
  /** The argument of `fetch`. */
  readonly reference: string
}

export type CallbackVerdict =
  | { readonly ok: true; readonly callback: Callback }
  | { readonly ok: false; readonly why: string }

type RefundOfPayment = {
  /** The id of the refunded payment at the provider. */
  readonly paymentId: string
  /** The provider's idempotency key. The refund at the provider has it as `refund_id` in its metadata. */
  readonly refundId: string
  /** Whole cents in USD. */
  readonly amountCents: number
}

/** Returns payments to their payers. */
export type PaymentRefunds = {
  /** The refund of the payment with this id; null if the provider has none. */
  find(refund: Pick<RefundOfPayment, 'paymentId' | 'refundId'>): Promise<MadeRefund | null>
  /**
   * Makes the refund, once for its id as long as the provider knows the idempotency key. `refused`: the provider's error
   * code; it made no refund.
   */
  create(refund: RefundOfPayment): Promise<MadeRefund | { readonly refused: string }>
}

/** A card that a payer saved on the page of the provider. */
export type SetupReport = {
  readonly kind: 'setup'
  /** The reference that the page was created with; null if it is not one of ours. */
  readonly accountId: string | null
  /** Null: nothing is saved yet. */
  readonly card: Omit<SavedMethod, 'gatewayId'> | null
}

type CardPayment = {
  /** The provider's idempotency key. The payment at the provider has it in its metadata. */
  readonly topupId: string
  readonly depositId: DepositId
  readonly method: Pick<SavedMethod, 'customerReference' | 'methodReference'>
  /** Whole cents in USD. */
  readonly amountCents: number
}

/** What became of a payment by a saved card. */
export type CardPaymentResult =
  /** Paid, or not final yet: `readInvoice` reports it. */
  | { readonly paymentId: string; readonly startedAt: string; readonly failed?: never }
  | { readonly failed: TopupFailureReason }

/** Cards that payers save at the provider, and payments by them while the payer is absent. */
export type SavedCards = {
  /** Creates a page that saves a card. Its callback has a `SetupReport`. */
  createPage(page: { readonly accountId: AccountId; readonly returnUrl: string }): Promise<string>
  /** The payment of a top-up; null if the provider has none, or has one that was interrupted: then pay again. */
  find(payment: CardPayment): Promise<CardPaymentResult | null>
  /** Pays, once for the top-up as long as the provider knows the idempotency key. */
  pay(payment: CardPayment): Promise<CardPaymentResult>
  /** Removes the card at the provider. A card that is gone is no error. */
  remove(method: Pick<SavedMethod, 'methodReference'>): Promise<void>
}

/**
 * An account at a payment provider.
 * @throws GatewayUnavailable if the provider does not answer, refuses, or answers outside its documentation
 */
export type PaymentGateway = {
  readonly provider: Provider
  /** Returns the same invoice for the same deposit, as far as the provider supports it. */
  createInvoice(request: InvoiceRequest): Promise<CreatedInvoice>
  /** Null if the provider has no such invoice. */
  readInvoice(invoice: {
    readonly invoiceId: string
    readonly depositId: DepositId
  }): Promise<InvoiceReport | null>
  /**
   * Ends an open invoice, so that its page takes no payment. One that is closed is no error. Absent if the provider
   * cannot do that: the page stays open until it expires.
   */
  closeInvoice?(invoiceId: string): Promise<void>
  /** The current state at the provider of a callback's `reference`; null if it concerns nothing of ours. */
  fetch(reference: string): Promise<GatewayReport | SetupReport | null>
  /**
   * The disputes and refunds that were opened since then (milliseconds since the epoch) and moved money, independent of
   * callbacks. Always empty if the provider cannot list them.
   */
  changesSince(sinceMs: number): Promise<readonly FoundChange[]>
  /** Absent if the provider cannot return a payment to its payer. */
  readonly refunds?: PaymentRefunds
  /** Absent if the provider cannot charge a saved payment method. */
  readonly cards?: SavedCards
  /** Checks the signature over the raw bytes in constant time, and the age if the provider signs a time. */
  verify(raw: Buffer, headers: IncomingHttpHeaders, nowMs: number): CallbackVerdict
}

/** A gateway with its owner and adapter. */
export type LiveGateway = {
  readonly gatewayId: string
  /** Null: the service. */
  readonly owner: AccountId | null
  readonly provider: Provider
  readonly merchantName: string
  readonly gateway: PaymentGateway
}

/** The gateways of the service and of its resellers. */
export type Gateways = {
  /** The live gateway of this owner (null: the service) for the rail, or null. */
  forRail(owner: AccountId | null, rail: Rail): Promise<LiveGateway | null>
  /** The rails with a live gateway of this owner, in the order of src/domain/shared/order-terms.ts. */
  liveRails(owner: AccountId | null): Promise<readonly Rail[]>
  /** The gateway of an invoice or a callback, also if it takes no new invoices. */
  byId(gatewayId: string): Promise<LiveGateway | null>
}

/**
 * The provider did not do what was requested. The message has no secret and no payer. There is no cause, because a
 * logger writes the texts of causes, and these come from the provider.
 */
export class GatewayUnavailable extends Error {
  override readonly name = 'GatewayUnavailable'
  constructor(message: string) {
    super(message)
  }
}

/** The provider answered with an object outside its documentation. Another request would have the same answer. */
export class UnreadableAnswer extends GatewayUnavailable {}

/**
 * Reads each object of a list of a provider. One that cannot be read does not hide the others; it becomes an open item.
 * @param read throws UnreadableAnswer
 */
export const readEach = <Item, Value>(
  items: readonly Item[],
  idOf: (item: Item) => string,
  read: (item: Item) => Value,
): { readonly values: readonly Value[]; readonly unreadable?: readonly string[] } => {
  const values: Value[] = []
  const unreadable: string[] = []
  for (const item of items)
    try {
      values.push(read(item))
    } catch (error) {
      if (!(error instanceof UnreadableAnswer)) throw error
      unreadable.push(idOf(item))
    }
  return { values, ...(unreadable.length > 0 && { unreadable }) }
}
