import type { IncomingHttpHeaders } from 'node:http'
import type { AccountId, DepositId } from '../../kernel/ids.ts'
import type { Provider, Rail } from './rails.ts'
import type { GatewayReport, InvoiceReport } from './reports.ts'

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

/** A dispute as a callback would have told it. */
export type FoundDispute = {
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
   * The disputes that were opened since then (milliseconds since the epoch) and moved money, whatever became of their
   * callbacks; always none where payments are never taken back.
   */
  disputesSince(sinceMs: number): Promise<readonly FoundDispute[]>
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
  /** The rails that have a live gateway of this owner, in the order of src/terms/methods.ts. */
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
