import { createHash, createHmac } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { paidCents, type SandboxInvoice } from './invoice.ts'
import { answer, invoiceKind, type ProviderSandbox, type SandboxStore } from './sandbox-store.ts'
import type { PendingCallback } from './send-callbacks.ts'

type Form = { [key: string]: Form | string }
type Query = Readonly<Record<string, string | undefined>>

/** Parses `a[b][0]=c` into nested objects, as Stripe does. */
const parseForm = (text: string): Form => {
  const root: Form = {}
  for (const [name, value] of new URLSearchParams(text)) {
    const parts = name.replaceAll(']', '').split('[')
    let node = root
    for (const part of parts.slice(0, -1)) {
      const next = node[part]
      const child: Form = typeof next === 'object' ? next : {}
      node[part] = child
      node = child
    }
    node[parts.at(-1) ?? ''] = value
  }
  return root
}

const formValue = (form: Form, ...path: readonly string[]): string => {
  let node: Form | string | undefined = form
  for (const part of path) node = typeof node === 'object' ? node[part] : undefined
  return typeof node === 'string' ? node : ''
}

const dayMs = 24 * 60 * 60 * 1000
const intentOf = ({ id }: SandboxInvoice): string => `pi_${id.replace(/^cs_test_/, '')}`

const intentStatus = ({ status }: SandboxInvoice): string => {
  if (status === 'paid') return 'succeeded'
  if (status === 'processing') return 'processing'
  return 'requires_payment_method'
}

const currencyOf = ({ currency = 'usd' }: { readonly currency?: string }): string => currency

const intent = (invoice: SandboxInvoice) => ({
  id: intentOf(invoice),
  object: 'payment_intent',
  amount: invoice.amountCents,
  currency: currencyOf(invoice),
  metadata: { deposit_id: invoice.reference },
  status: intentStatus(invoice),
})

/** A Checkout session in the format of the API. */
const session = (invoice: SandboxInvoice, baseUrl: string, expanded: boolean) => {
  const { status } = invoice
  const open = status === 'open'
  const started = !open && status !== 'expired'
  return {
    id: invoice.id,
    object: 'checkout.session',
    amount_subtotal: invoice.amountCents,
    amount_total: status === 'paid' ? paidCents(invoice) : invoice.amountCents,
    client_reference_id: invoice.reference,
    created: Math.floor(invoice.createdAtMs / 1000),
    currency: currencyOf(invoice),
    expires_at: Math.floor(invoice.expiresAtMs / 1000),
    livemode: false,
    metadata: { deposit_id: invoice.reference },
    mode: 'payment',
    payment_intent: started ? (expanded ? intent(invoice) : intentOf(invoice)) : null,
    allowed_payment_method_types: [invoice.method],
    payment_method_types: [invoice.method],
    payment_status: status === 'paid' ? 'paid' : 'unpaid',
    status: open ? 'open' : status === 'expired' ? 'expired' : 'complete',
    success_url: invoice.returnUrl,
    url: open ? `${baseUrl}/pay/${invoice.id}` : null,
  }
}

const fault = (reply: FastifyReply, status: number, type: string, message: string, code?: string) =>
  answer(reply, status, { error: { type, message, ...(code === undefined ? {} : { code }) } })

/** The signature header of a Stripe callback (Stripe's manual, "Verify webhook signatures manually"). */
const signatureOf = (payload: string, secret: string, timestamp: number): string => {
  const signature = createHmac('sha256', secret).update(`${timestamp}.${payload}`).digest('hex')
  return `t=${timestamp},v1=${signature}`
}

/**
 * A simulated Stripe: `/v1/checkout/sessions`, `/v1/charges`, `/v1/refunds` and `/v1/disputes`, form bodies,
 * idempotency keys, `Stripe-Signature`.
 */
export const stripeSandbox = (sandboxStore: SandboxStore): ProviderSandbox => {
  const keyOf = (request: FastifyRequest): string | null =>
    /^Bearer ((?:sk|rk)_test_\S+)$/.exec(request.headers.authorization ?? '')?.[1] ?? null

  const findInvoice = async (key: string, id: string): Promise<SandboxInvoice | null> => {
    const invoice = await sandboxStore.find(id)
    return invoice?.provider === 'stripe' && invoice.account === key ? invoice : null
  }

  /** The disputes of the account, newest first. */
  const disputes = async (key: string) => {
    const invoices = await sandboxStore.records.all<SandboxInvoice>(invoiceKind)
    return invoices
      .filter(({ provider, account }) => provider === 'stripe' && account === key)
      .flatMap((invoice) =>
        invoice.payments.flatMap(({ disputeId }) =>
          disputeId === null ? [] : [dispute(invoice, disputeId)],
        ),
      )
      .sort((one, other) => other.created - one.created || (one.id < other.id ? -1 : 1))
  }

  const paidInvoices = async (key: string): Promise<readonly SandboxInvoice[]> => {
    const invoices = await sandboxStore.records.all<SandboxInvoice>(invoiceKind)
    return invoices.filter(
      ({ provider, account, payments }) => provider === 'stripe' && account === key && payments.length > 0,
    )
  }

  const newSessionId = (): string => `cs_test_${sandboxStore.hex(48)}`

  const create = async (key: string, form: Form, id: string): Promise<SandboxInvoice> => {
    const nowMs = sandboxStore.clock()
    return sandboxStore.add({
      id,
      provider: 'stripe',
      account: key,
      amountCents: Number(formValue(form, 'line_items', '0', 'price_data', 'unit_amount')),
      reference: formValue(form, 'client_reference_id'),
      title: formValue(form, 'line_items', '0', 'price_data', 'product_data', 'name'),
      method: formValue(form, 'allowed_payment_method_types', '0') || 'card',
      returnUrl: formValue(form, 'success_url'),
      callbackUrl: null,
      createdAtMs: nowMs,
      expiresAtMs: nowMs + dayMs,
      status: 'open',
      payments: [],
    })
  }

  const problem = (form: Form): string | null => {
    const cents = formValue(form, 'line_items', '0', 'price_data', 'unit_amount')
    if (formValue(form, 'mode') !== 'payment') return 'Invalid mode: must be payment'
    if (!/^[1-9]\d{1,7}$/.test(cents) || Number(cents) < 50) return `Invalid integer: ${cents}`
    if (formValue(form, 'line_items', '0', 'price_data', 'currency') !== 'usd') return 'Invalid currency'
    if (!URL.canParse(formValue(form, 'success_url'))) return 'Not a valid URL'
    return null
  }

  const createOnce = async (request: FastifyRequest, reply: FastifyReply, key: string) => {
    const text = String(request.body ?? '')
    const form = parseForm(text)
    const formProblem = problem(form)
    if (formProblem !== null) return fault(reply, 400, 'invalid_request_error', formProblem)
    const idempotency = request.headers['idempotency-key']
    const id = newSessionId()
    const digest = createHash('sha256').update(text).digest('hex')
    const storedSession =
      typeof idempotency !== 'string'
        ? { id, digest }
        : await sandboxStore.records.change<{ id: string; digest: string }>(
            'stripe-idempotency',
            `${key} ${idempotency}`,
            (record) => record ?? { id, digest },
          )
    if (storedSession?.digest !== digest)
      return fault(
        reply,
        400,
        'idempotency_error',
        'Keys for idempotent requests can only be used with the same parameters they were first used with.',
      )
    const existing = storedSession.id === id ? null : await sandboxStore.find(storedSession.id)
    // The request is new, or an earlier request with this key was interrupted after it stored the id.
    if (!existing)
      return answer(
        reply,
        200,
        session(await create(key, form, storedSession.id), sandboxStore.baseUrl(), false),
      )
    reply.header('idempotent-replayed', 'true')
    return answer(reply, 200, session(existing, sandboxStore.baseUrl(), false))
  }

  const notFound = (reply: FastifyReply, what: string) =>
    fault(reply, 404, 'invalid_request_error', `No such ${what}`, 'resource_missing')

  return {
    provider: 'stripe',
    paymentId: () => `ch_${sandboxStore.hex(24)}`,
    routes: (app) => {
      app.register(async (stripeApp) => {
        stripeApp.addContentTypeParser(
          'application/x-www-form-urlencoded',
          { parseAs: 'string' },
          (_request, body, done) => done(null, body),
        )
        const guarded =
          (handle: (request: FastifyRequest, reply: FastifyReply, key: string) => Promise<unknown>) =>
          async (request: FastifyRequest, reply: FastifyReply) => {
            const key = keyOf(request)
            return key === null
              ? fault(reply, 401, 'invalid_request_error', 'Invalid API Key provided')
              : handle(request, reply, key)
          }
        stripeApp.post('/v1/checkout/sessions', guarded(createOnce))
        stripeApp.get(
          '/v1/checkout/sessions/:id',
          guarded(async (request, reply, key) => {
            const { id } = request.params as { id: string }
            const invoice = await findInvoice(key, id)
            if (!invoice) return notFound(reply, `checkout.session: ${id}`)
            const expanded = decodeURIComponent(request.url).includes('payment_intent')
            return answer(reply, 200, session(invoice, sandboxStore.baseUrl(), expanded))
          }),
        )
        stripeApp.post(
          '/v1/checkout/sessions/:id/expire',
          guarded(async (request, reply, key) => {
            const { id } = request.params as { id: string }
            if (!(await findInvoice(key, id))) return notFound(reply, `checkout.session: ${id}`)
            const done = await sandboxStore.act(id, { kind: 'expire' })
            if ('refused' in done) return fault(reply, 400, 'invalid_request_error', done.refused)
            return answer(reply, 200, session(done.invoice, sandboxStore.baseUrl(), false))
          }),
        )
        stripeApp.get(
          '/v1/checkout/sessions',
          guarded(async (request, reply, key) => {
            const intentId = (request.query as Query).payment_intent
            const invoices = await sandboxStore.records.all<SandboxInvoice>(invoiceKind)
            const data = invoices
              .filter((invoice) => invoice.provider === 'stripe' && invoice.account === key)
              .filter((invoice) => intentOf(invoice) === intentId)
              .map((invoice) => session(invoice, sandboxStore.baseUrl(), false))
            return answer(reply, 200, { object: 'list', url: '/v1/checkout/sessions', has_more: false, data })
          }),
        )
        stripeApp.get(
          '/v1/charges/:id',
          guarded(async (request, reply, key) => {
            const { id } = request.params as { id: string }
            const invoice = (await paidInvoices(key)).find(({ payments }) => payments[0]?.id === id)
            return invoice ? answer(reply, 200, charge(invoice)) : notFound(reply, `charge: ${id}`)
          }),
        )
        stripeApp.get(
          '/v1/refunds',
          guarded(async (request, reply, key) => {
            const since = Number((request.query as Query)['created[gte]'] ?? 0)
            const data = (await paidInvoices(key)).map(refund).filter(({ created }) => created >= since)
            const refunds = data.filter(({ amount }) => amount > 0)
            return answer(reply, 200, { object: 'list', url: '/v1/refunds', has_more: false, data: refunds })
          }),
        )
        stripeApp.get(
          '/v1/disputes/:id',
          guarded(async (request, reply, key) => {
            const { id } = request.params as { id: string }
            const found = (await disputes(key)).find((one) => one.id === id)
            return found ? answer(reply, 200, found) : notFound(reply, `dispute: ${id}`)
          }),
        )
        stripeApp.get(
          '/v1/disputes',
          guarded(async (request, reply, key) => {
            const query = request.query as Query
            const since = Number(query['created[gte]'] ?? 0)
            const limit = Number(query.limit ?? 10)
            const found = (await disputes(key)).filter(({ created }) => created >= since)
            const first = found.findIndex(({ id }) => id === query.starting_after) + 1
            const data = found.slice(first, first + limit)
            const hasMore = first + limit < found.length
            return answer(reply, 200, { object: 'list', url: '/v1/disputes', has_more: hasMore, data })
          }),
        )
      })
    },
    callbacks: (before, invoice, action, account) => {
      const types: Readonly<Record<typeof action.kind, readonly string[]>> = {
        pay: [before.status === 'processing' ? 'async_payment_succeeded' : 'completed'],
        process: ['completed'],
        expire: ['expired'],
        fail:
          before.status === 'processing' ? ['async_payment_failed'] : ['completed', 'async_payment_failed'],
        dispute: ['charge.dispute.created'],
        'close-dispute': ['charge.dispute.funds_reinstated', 'charge.dispute.closed'],
        refund: ['charge.refunded'],
        'mark-settled': [],
        'mark-invalid': [],
        euros: [],
      }
      return types[action.kind].map((type): PendingCallback => {
        const disputeId = invoice.payments[0]?.disputeId ?? ''
        const object = type.startsWith('charge.dispute.')
          ? dispute(invoice, disputeId)
          : type === 'charge.refunded'
            ? charge(invoice)
            : session(invoice, sandboxStore.baseUrl(), false)
        const event = {
          id: `evt_${sandboxStore.hex(24)}`,
          object: 'event',
          api_version: '2026-10-28.endive',
          created: Math.floor(sandboxStore.clock() / 1000),
          livemode: false,
          pending_webhooks: 1,
          type: type.startsWith('charge.') ? type : `checkout.session.${type}`,
          data: { object },
        }
        const signBody = (body: object, secret: string, nowMs: number) => {
          const payload = JSON.stringify(body, null, 2)
          const timestamp = Math.floor(nowMs / 1000)
          return { body: payload, headers: { 'stripe-signature': signatureOf(payload, secret, timestamp) } }
        }
        const falsified = {
          ...event,
          id: `${event.id}lie`,
          data: {
            object: {
              ...object,
              amount_total: invoice.amountCents * 100,
              amount: 99_999_999,
              currency: 'jpy',
            },
          },
        }
        return {
          invoice,
          url: account.webhookUrl,
          sign: (nowMs) => signBody(event, account.webhookSecret, nowMs),
          forge: (nowMs) => signBody({ ...falsified, id: `${event.id}forged` }, 'whsec_forged', nowMs),
          lie: (nowMs) => signBody(falsified, account.webhookSecret, nowMs),
        }
      })
    },
  }
}

const dispute = (invoice: SandboxInvoice, id: string) => {
  const payment = invoice.payments.find(({ disputeId }) => disputeId === id)
  const cents = payment?.cents ?? 0
  const repaidCents = payment?.returnedCents
  const currency = currencyOf(invoice)
  return {
    id,
    object: 'dispute',
    amount: cents,
    balance_transactions: [
      { object: 'balance_transaction', amount: 0 - cents, currency, fee: 1_500 },
      ...(repaidCents ? [{ object: 'balance_transaction', amount: repaidCents, currency, fee: 0 }] : []),
    ],
    charge: payment?.id ?? null,
    created: Math.floor((payment?.disputedAtMs ?? 0) / 1000),
    currency,
    payment_intent: intentOf(invoice),
    reason: 'fraudulent',
    status: repaidCents === undefined ? 'needs_response' : repaidCents > 0 ? 'won' : 'lost',
  }
}

/** The charge of a session, with its refunds. */
const charge = (invoice: SandboxInvoice) => {
  const payment = invoice.payments[0]
  const refunded = payment?.refundedCents ?? 0
  return {
    id: payment?.id ?? '',
    object: 'charge',
    amount: payment?.cents ?? 0,
    amount_refunded: refunded,
    currency: currencyOf(invoice),
    payment_intent: intentOf(invoice),
    refunded: refunded > 0 && refunded === payment?.cents,
    status: 'succeeded',
  }
}

const refund = (invoice: SandboxInvoice) => {
  const payment = invoice.payments[0]
  return {
    id: `re_${(payment?.id ?? '').replace(/^ch_/, '')}`,
    object: 'refund',
    amount: payment?.refundedCents ?? 0,
    charge: payment?.id ?? null,
    created: Math.floor((payment?.refundedAtMs ?? 0) / 1000),
    currency: currencyOf(invoice),
    payment_intent: intentOf(invoice),
    status: 'succeeded',
  }
}
