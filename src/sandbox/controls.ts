import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { paidCents, type SandboxInvoice, type Switches, SwitchesShape } from './invoice.ts'
import {
  answer,
  type InvoiceActions,
  invoiceKind,
  type SandboxAccount,
  type SandboxStore,
} from './sandbox-store.ts'

const AccountShape = z.strictObject({
  provider: z.enum(['stripe', 'btcpay', 'nowpayments']),
  key: z.string(),
  webhookUrl: z.url(),
  webhookSecret: z.string(),
})
const PayShape = z.strictObject({ amount_cents: z.int().min(1).optional() })

/** An invoice as the controls return it, in the same format for each provider. */
const invoiceView = (invoice: SandboxInvoice) => ({
  id: invoice.id,
  deposit_id: invoice.reference,
  provider: invoice.provider,
  status: invoice.status,
  amount_cents: invoice.amountCents,
  paid_cents: paidCents(invoice),
  payments: invoice.payments.map(({ id, cents, late, disputeId }) => ({
    id,
    amount_cents: cents,
    late,
    charged_back: disputeId !== null,
  })),
})

/** Reads and changes the fault switches and the accounts. */
export type FaultControls = {
  /** The current switches. */
  now(): Switches
  set(change: Partial<Switches>): Switches
  reset(): Switches
  keep(account: SandboxAccount): Promise<unknown>
}

/** `/_sandbox/`: pays invoices over HTTP, lists the records of the sandbox, and sets the fault switches. */
export const controlRoutes = (
  app: FastifyInstance,
  sandboxStore: SandboxStore,
  { find, actionOf }: InvoiceActions,
  faultControls: FaultControls,
): void => {
  const idOf = (request: FastifyRequest): string => (request.params as { id: string }).id
  const notFound = (reply: FastifyReply) => answer(reply, 404, { error: 'no invoice has this id' })

  const dueOf = (invoice: SandboxInvoice): number =>
    Math.max(invoice.amountCents - paidCents(invoice), 0) || invoice.amountCents

  app.post('/_sandbox/invoices/:id/:action', async (request, reply) => {
    const invoice = await find(idOf(request))
    if (!invoice) return notFound(reply)
    const body = PayShape.safeParse(request.body ?? {})
    if (!body.success)
      return answer(reply, 400, { error: 'the body takes {"amount_cents": whole cents above 0}' })
    const { action: kind } = request.params as { action: string }
    const action = actionOf(invoice, kind, body.data.amount_cents ?? dueOf(invoice))
    if (!action)
      return answer(reply, 404, {
        error:
          'an invoice can be: pay, process, expire, fail, dispute, close-dispute, lose-dispute, refund, fail-refund, mark-settled, mark-invalid, euros',
      })
    const done = await sandboxStore.act(invoice.id, action)
    if ('refused' in done) return answer(reply, 409, { error: done.refused, ...invoiceView(invoice) })
    return answer(reply, 200, invoiceView(done.invoice))
  })
  app.get('/_sandbox/invoices/:id', async (request, reply) => {
    const invoice = await find(idOf(request))
    return invoice ? answer(reply, 200, invoiceView(invoice)) : notFound(reply)
  })
  app.get('/_sandbox/invoices', async (_request, reply) => {
    const invoices = await sandboxStore.records.all<SandboxInvoice>(invoiceKind)
    return answer(reply, 200, { invoices: invoices.map(invoiceView) })
  })
  app.put('/_sandbox/switches', async (request, reply) => {
    const change = SwitchesShape.safeParse(request.body)
    if (!change.success) return answer(reply, 400, { error: z.prettifyError(change.error) })
    return answer(reply, 200, faultControls.set(change.data as Partial<Switches>))
  })
  app.delete('/_sandbox/switches', async (_request, reply) => answer(reply, 200, faultControls.reset()))
  app.put('/_sandbox/accounts', async (request, reply) => {
    const account = AccountShape.safeParse(request.body)
    if (!account.success) return answer(reply, 400, { error: z.prettifyError(account.error) })
    await faultControls.keep(account.data)
    return answer(reply, 200, {})
  })
}
