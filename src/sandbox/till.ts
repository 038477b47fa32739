import type { FastifyInstance, FastifyReply } from 'fastify'
import type { Provider } from '../money/payments/rails.ts'
import type { Outgoing } from './callbacks.ts'
import type { Deed, SandboxInvoice } from './invoice.ts'
import type { Records } from './records.ts'

/** An account at a stand-in: where its callbacks go, what signs them, and what its pay pages call it. */
export type SandboxAccount = {
  readonly provider: Provider
  /** Its API key. */
  readonly key: string
  readonly webhookUrl: string
  readonly webhookSecret: string
}

/** What the stand-ins share. */
export type Till = {
  readonly records: Records
  readonly clock: () => number
  /** Fresh lower-case hex digits. */
  readonly hex: (digits: number) => string
  /** Where this server answers. */
  readonly baseUrl: () => string
  account(provider: Provider, key: string): Promise<SandboxAccount | null>
  find(id: string): Promise<SandboxInvoice | null>
  add(invoice: SandboxInvoice): Promise<SandboxInvoice>
  /** Does the deed and sends its callbacks; gives why the provider would not take it. */
  act(id: string, deed: Deed): Promise<{ readonly invoice: SandboxInvoice } | { readonly refused: string }>
}

/** One provider's API, and the callbacks that it sends when something was done to an invoice. */
export type StandIn = {
  readonly provider: Provider
  /** The shape of its payment ids. */
  paymentId(): string
  routes(app: FastifyInstance): void
  callbacks(
    before: SandboxInvoice,
    invoice: SandboxInvoice,
    deed: Deed,
    account: SandboxAccount,
  ): readonly Outgoing[]
}

export const invoiceKind = 'invoice'

export const answer = (reply: FastifyReply, status: number, body: unknown): FastifyReply =>
  reply.code(status).header('content-type', 'application/json; charset=utf-8').send(JSON.stringify(body))
