import type { IncomingHttpHeaders } from 'node:http'
import { z } from 'zod'
import type { GatewayReport, InvoiceReport, Provider, Rail } from '../../domain/payments/payments.ts'
import type { AccountId, DepositId } from '../../kernel/ids.ts'

const text = z.string().regex(/^[\x21-\x7e]{1,500}$/)

/** What each provider's adapter needs. Kept sealed in the vault, never in an event, a log or an answer. */
export const credentialShapes = {
  stripe: z.strictObject({
    /** A secret or restricted key of the account. */
    secretKey: z.string().regex(/^(sk|rk)_(test|live)_[A-Za-z0-9_]{1,300}$/),
    /** The signing secret of the webhook endpoint. */
    webhookSecret: z.string().regex(/^whsec_[\x21-\x7e]{1,300}$/),
  }),
  btcpay: z.strictObject({
    /** Where the server answers, e.g. `https://pay.example.com`. */
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
    /** Of the account: the list of an invoice's payments, which finds lost callbacks, is given to a login only. */
    email: z.email(),
    password: z.string().min(1).max(500),
  }),
} as const

export type StripeCredentials = z.infer<typeof credentialShapes.stripe>
export type BtcpayCredentials = z.infer<typeof credentialShapes.btcpay>
export type NowpaymentsCredentials = z.infer<typeof credentialShapes.nowpayments>

/** What signs in to a real provider. */
export const realCredentials = z.discriminatedUnion('provider', [
  credentialShapes.stripe.extend({ provider: z.literal('stripe') }),
  credentialShapes.btcpay.extend({ provider: z.literal('btcpay') }),
  credentialShapes.nowpayments.extend({ provider: z.literal('nowpayments') }),
])
export type RealCredentials = z.infer<typeof realCredentials>

/** A provider's stand-in, where this installation runs one. */
export const sandboxCredentials = z.strictObject({
  provider: z.enum(['stripe', 'btcpay', 'nowpayments']),
  sandbox: z.literal(true),
})

export const gatewayCredentials = z.union([realCredentials, sandboxCredentials])
export type GatewayCredentials = z.infer<typeof gatewayCredentials>

export const isSandbox = (
  credentials: GatewayCredentials,
): credentials is z.infer<typeof sandboxCredentials> => 'sandbox' in credentials

/** What an invoice is made of. The same deposit always asks with the same fields, so that a retry can converge. */
export type InvoiceRequest = {
  /** The provider's idempotency key, and the reference that its answers carry. */
  readonly depositId: DepositId
  /** Whole cents in USD. */
  readonly amountCents: number
  readonly rail: Rail
  /** Stands on the pay page. */
  readonly merchantName: string
  /** Where the payer lands afterwards. */
  readonly returnUrl: string
  /** Where the provider's callbacks of this gateway are taken. */
  readonly callbackUrl: string
}

export type CreatedInvoice = {
  readonly invoiceId: string
  readonly payUrl: string
  /** ISO 8601 UTC: until then it can be paid. */
  readonly expiresAt: string
  /** ISO 8601 UTC: until then the provider still notices late payments. */
  readonly watchUntil: string
}

/** A callback that its sender signed. It only says where to look: what it states is never believed. */
export type Callback = {
  /** Unique for the gateway; the same for each delivery of the same event. */
  readonly eventId: string
  /** For `fetch`; null when nothing that matters happened. */
  readonly reference: string | null
}

/** A dispute or a refund as a callback would have told it. */
export type FoundChange = {
  /** The same for each time that it is found in this state. */
  readonly eventId: string
  /** For `fetch`. */
  readonly reference: string
}

export type CallbackVerdict =
  | { readonly ok: true; readonly callback: Callback }
  | { readonly ok: false; readonly why: string }

/**
 * A payment provider's account. Rejects with GatewayUnavailable when the provider does not answer, refuses, or answers
 * what its documentation does not have.
 */
export type PaymentGateway = {
  readonly provider: Provider
  /** The same deposit gives the same invoice, as far as the provider can. */
  createInvoice(request: InvoiceRequest): Promise<CreatedInvoice>
  /** Null when the provider has no such invoice. */
  readInvoice(invoice: {
    readonly invoiceId: string
    readonly depositId: DepositId
  }): Promise<InvoiceReport | null>
  /** What a callback's `reference` points to, as the provider says it now; null when it points to nothing of ours. */
  fetch(reference: string): Promise<GatewayReport | null>
  /**
   * The disputes and refunds that were opened since then (milliseconds since the epoch) and moved money, whatever became of
   * their callbacks; always none where the provider does not list any.
   */
  changesSince(sinceMs: number): Promise<readonly FoundChange[]>
  /** Checks the signature over the raw bytes in constant time, and the age where the provider signs one. */
  verify(raw: Buffer, headers: IncomingHttpHeaders, nowMs: number): CallbackVerdict
}

/** A gateway with what belongs to it. */
export type LiveGateway = {
  readonly gatewayId: string
  /** Null: the service itself. */
  readonly owner: AccountId | null
  readonly provider: Provider
  readonly merchantName: string
  readonly gateway: PaymentGateway
}

/** The gateways of the service and of its resellers. */
export type Gateways = {
  /** The live gateway of this owner for the rail (null: the service's), or null. */
  forRail(owner: AccountId | null, rail: Rail): Promise<LiveGateway | null>
  /** The rails that have a live gateway of this owner, in the order of src/domain/shared/order-terms.ts. */
  liveRails(owner: AccountId | null): Promise<readonly Rail[]>
  /** A gateway that an invoice was made on or a callback came for, also when it is no more the rail's live one. */
  byId(gatewayId: string): Promise<LiveGateway | null>
}

/**
 * The provider did not do what was asked. The message names no secret and no payer, and there is no cause: a logger
 * writes the texts of causes, and those are the provider's.
 */
export class GatewayUnavailable extends Error {
  override readonly name = 'GatewayUnavailable'
  constructor(message: string) {
    super(message)
  }
}
