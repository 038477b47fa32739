import { createHash, createHmac } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { html } from '../platform/ui/html.ts'
import { paidCents, refundedCents, refundsOf, type SandboxInvoice, type SandboxRefund } from './invoice.ts'
import { framed, notFoundPage } from './sandbox-pages.ts'
import {
  answer,
  invoiceKind,
  type ProviderSandbox,
  type SandboxAccount,
  type SandboxStore,
} from './sandbox-store.ts'
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

const keyOfOtherRequest =
  'Keys for idempotent requests can only be used with the same parameters they were first used with.'

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
  amount_received: paidCents(invoice),
  created: Math.floor(invoice.createdAtMs / 1000),
  currency: currencyOf(invoice),
  ...(invoice.byCard && {
    customer: invoice.byCard.customer,
    last_payment_error: invoice.byCard.refusal === null ? null : cardError(invoice.byCard.refusal),
  }),
  metadata: {
    deposit_id: invoice.reference,
    ...(invoice.byCard && { topup_id: invoice.byCard.topupId }),
  },
  status: intentStatus(invoice),
})

const cardError = (code: string) => ({
  type: 'card_error',
  code,
  message: `SANDBOX: ${code.replaceAll('_', ' ')}`,
})

/** The cards of the setup page, and why the bank refuses a later payment by each; null: it does not. */
const setupCards = {
  good: { lastFour: '4242', refusal: null },
  authentication: { lastFour: '3155', refusal: 'authentication_required' },
  declined: { lastFour: '0341', refusal: 'card_declined' },
  expired: { lastFour: '0069', refusal: 'expired_card' },
} as const
type SetupCard = keyof typeof setupCards

/** A session that saves a card. */
type Setup = {
  readonly id: string
  /** The API key of the account at the provider. */
  readonly account: string
  readonly reference: string
  readonly returnUrl: string
  readonly createdAtMs: number
  /** Null: no card is saved yet. */
  readonly card: SetupCard | null
  /** The merchant removed the card. */
  readonly removed: boolean
}

const setupKind = 'stripe-setup'
const suffixOf = ({ id }: Pick<Setup, 'id'>): string => id.slice('cs_setup_'.length)
const methodOf = (setup: Setup): string => `pm_${suffixOf(setup)}`
const payerOf = (setup: Setup): string => `cus_${suffixOf(setup)}`

/** The session in the format of the API. */
const setupSession = (setup: Setup, baseUrl: string, expanded: boolean) => ({
  id: setup.id,
  object: 'checkout.session',
  amount_total: null,
  client_reference_id: setup.reference,
  created: Math.floor(setup.createdAtMs / 1000),
  currency: 'usd',
  customer: setup.card === null ? null : payerOf(setup),
  expires_at: Math.floor(setup.createdAtMs / 1000) + 86_400,
  livemode: false,
  metadata: {},
  mode: 'setup',
  payment_intent: null,
  payment_status: 'no_payment_required',
  setup_intent: expanded
    ? {
        id: `seti_${suffixOf(setup)}`,
        object: 'setup_intent',
        payment_method:
          setup.card === null
            ? null
            : {
                id: methodOf(setup),
                object: 'payment_method',
                type: 'card',
                card: { brand: 'visa', last4: setupCards[setup.card].lastFour },
              },
        status: setup.card === null ? 'requires_payment_method' : 'succeeded',
      }
    : `seti_${suffixOf(setup)}`,
  status: setup.card === null ? 'open' : 'complete',
  success_url: setup.returnUrl,
  url: setup.card === null ? `${baseUrl}/pay/${setup.id}/card` : null,
})

const setupPage = (setup: Setup): string =>
  framed({
    title: 'Save a card',
    note: 'A simulated Stripe Checkout.',
    body: html`<h1>Save a card</h1>
<form method="post">
<button name="card" value="good" class="first">Save a card that pays (4242)</button>
<button name="card" value="declined">One that is declined later</button>
<button name="card" value="authentication">One whose bank requires the payer</button>
<button name="card" value="expired">One that expires</button>
</form>
<a class="back" href="${setup.returnUrl}" rel="noreferrer">Back to the shop</a>`,
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

/** The callbacks of a payment by a saved card, instead of those of a session. */
const intentTypes: Readonly<Record<string, string>> = {
  completed: 'payment_intent.succeeded',
  async_payment_failed: 'payment_intent.payment_failed',
}

/**
 * A simulated Stripe: `/v1/checkout/sessions`, `/v1/payment_intents`, `/v1/charges`, `/v1/refunds` and `/v1/disputes`, form bodies,
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
    if (formValue(form, 'mode') === 'setup')
      return formValue(form, 'currency') === 'usd' ? null : 'Missing required param: currency.'
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
    if (formValue(form, 'mode') === 'setup')
      return answer(reply, 200, setupSession(await createSetup(key, form), sandboxStore.baseUrl(), false))
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
    if (storedSession?.digest !== digest) return fault(reply, 400, 'idempotency_error', keyOfOtherRequest)
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

  const createSetup = async (key: string, form: Form): Promise<Setup> => {
    const id = `cs_setup_${sandboxStore.hex(48)}`
    const setup: Setup = {
      id,
      account: key,
      reference: formValue(form, 'client_reference_id'),
      returnUrl: formValue(form, 'success_url').replace('{CHECKOUT_SESSION_ID}', id),
      createdAtMs: sandboxStore.clock(),
      card: null,
      removed: false,
    }
    return (await sandboxStore.records.change<Setup>(setupKind, setup.id, () => setup)) ?? setup
  }

  const findSetup = async (key: string, id: string): Promise<Setup | null> => {
    const setup = await sandboxStore.records.get<Setup>(setupKind, id)
    return setup?.account === key ? setup : null
  }

  /** The payer saves a card, and the callback is sent. */
  const saveCard = async (id: string, card: SetupCard): Promise<Setup | null> => {
    const setup = await sandboxStore.records.change<Setup>(
      setupKind,
      id,
      (existing) => existing && { ...existing, card: existing.card ?? card },
    )
    const account = setup && (await sandboxStore.account('stripe', setup.account))
    if (setup && account)
      sandboxStore.send(callbackOf('checkout.session.completed', setupSession(setup, '', false), account))
    return setup
  }

  /** `POST /v1/payment_intents`: a payment by a saved card. */
  const payOnce = async (request: FastifyRequest, reply: FastifyReply, key: string) => {
    const text = String(request.body ?? '')
    const form = parseForm(text)
    const methodId = formValue(form, 'payment_method')
    const setup = await findSetup(key, methodId.replace(/^pm_/, 'cs_setup_'))
    const customer = formValue(form, 'customer')
    if (setup === null || setup.card === null || setup.removed || payerOf(setup) !== customer)
      return notFound(reply, `PaymentMethod: ${methodId}`)
    const digest = createHash('sha256').update(text).digest('hex')
    const newId = newSessionId()
    const stored = await sandboxStore.records.change<{ id: string; digest: string }>(
      'stripe-idempotency',
      `${key} ${request.headers['idempotency-key'] ?? newId}`,
      (record) => record ?? { id: newId, digest },
    )
    if (stored?.digest !== digest) return fault(reply, 400, 'idempotency_error', keyOfOtherRequest)
    const cents = Number(formValue(form, 'amount'))
    const { refusal } = setupCards[setup.card]
    if ((await sandboxStore.find(stored.id)) === null) {
      await sandboxStore.add({
        id: stored.id,
        provider: 'stripe',
        account: key,
        amountCents: cents,
        reference: formValue(form, 'metadata', 'deposit_id'),
        title: 'Automatic top-up',
        method: 'card',
        returnUrl: setup.returnUrl,
        callbackUrl: null,
        createdAtMs: sandboxStore.clock(),
        expiresAtMs: sandboxStore.clock() + dayMs,
        status: 'open',
        payments: [],
        byCard: { customer, topupId: formValue(form, 'metadata', 'topup_id'), refusal },
      })
    }
    const found = await sandboxStore.find(stored.id)
    if (found?.status === 'open')
      await sandboxStore.act(
        stored.id,
        refusal === null ? { kind: 'pay', cents, paymentId: `ch_${sandboxStore.hex(24)}` } : { kind: 'fail' },
      )
    const made = await sandboxStore.find(stored.id)
    if (!made) return notFound(reply, `payment_intent: ${stored.id}`)
    return refusal === null
      ? answer(reply, 200, intent(made))
      : answer(reply, 402, { error: { ...cardError(refusal), payment_intent: intent(made) } })
  }

  const notFound = (reply: FastifyReply, what: string) =>
    fault(reply, 404, 'invalid_request_error', `No such ${what}`, 'resource_missing')

  /** `POST /v1/refunds`, for a payment intent. Without an amount, all that is left is refunded. */
  const refundOnce = async (request: FastifyRequest, reply: FastifyReply, key: string) => {
    const text = String(request.body ?? '')
    const form = parseForm(text)
    const intentId = formValue(form, 'payment_intent')
    const invoice = (await paidInvoices(key)).find((one) => intentOf(one) === intentId)
    if (!invoice) return notFound(reply, `payment_intent: ${intentId}`)
    const digest = createHash('sha256').update(text).digest('hex')
    const newId = sandboxStore.hex(24)
    const idempotency = request.headers['idempotency-key']
    const stored =
      typeof idempotency !== 'string'
        ? null
        : await sandboxStore.records.change<{ id: string; digest: string }>(
            'stripe-idempotency',
            `${key} ${idempotency}`,
            (record) => record ?? { id: newId, digest },
          )
    if (stored && stored.digest !== digest) return fault(reply, 400, 'idempotency_error', keyOfOtherRequest)
    const id = stored?.id ?? newId
    const existing = refundsOf(invoice).find((one) => one.id === id)
    if (existing) {
      reply.header('idempotent-replayed', 'true')
      return answer(reply, 200, refund(invoice, existing, false))
    }
    const leftCents = (invoice.payments[0]?.cents ?? 0) - refundedCents(invoice)
    const amountText = formValue(form, 'amount')
    const cents = amountText === '' ? leftCents : Number(amountText)
    if (invoice.payments[0]?.disputeId)
      return fault(reply, 400, 'invalid_request_error', 'The charge is disputed.', 'charge_disputed')
    if (leftCents === 0)
      return fault(
        reply,
        400,
        'invalid_request_error',
        'The charge is already refunded.',
        'charge_already_refunded',
      )
    if (!Number.isSafeInteger(cents) || cents < 1 || cents > leftCents)
      return fault(reply, 400, 'invalid_request_error', `Refund amount is greater than ${leftCents}`)
    const ownId = formValue(form, 'metadata', 'refund_id')
    const metadata = ownId === '' ? {} : { metadata: { refund_id: ownId } }
    const done = await sandboxStore.act(invoice.id, { kind: 'refund', cents, refundId: id, ...metadata })
    if ('refused' in done) return fault(reply, 400, 'invalid_request_error', done.refused)
    const made = refundsOf(done.invoice).find((one) => one.id === id)
    return made ? answer(reply, 200, refund(done.invoice, made, false)) : notFound(reply, `refund: ${id}`)
  }

  /** A callback about an object of the API. */
  const callbackOf = (
    type: string,
    object: object,
    account: SandboxAccount,
    amountCents = 0,
  ): PendingCallback => {
    const event = {
      id: `evt_${sandboxStore.hex(24)}`,
      object: 'event',
      api_version: '2026-10-28.endive',
      created: Math.floor(sandboxStore.clock() / 1000),
      livemode: false,
      pending_webhooks: 1,
      type,
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
        object: { ...object, amount_total: amountCents * 100, amount: 99_999_999, currency: 'jpy' },
      },
    }
    return {
      url: account.webhookUrl,
      sign: (nowMs) => signBody(event, account.webhookSecret, nowMs),
      forge: (nowMs) => signBody({ ...falsified, id: `${event.id}forged` }, 'whsec_forged', nowMs),
      lie: (nowMs) => signBody(falsified, account.webhookSecret, nowMs),
    }
  }

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
            const setup = await findSetup(key, id)
            const isExpanded = decodeURIComponent(request.url).includes('setup_intent')
            if (setup) return answer(reply, 200, setupSession(setup, sandboxStore.baseUrl(), isExpanded))
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
              .filter((invoice) => intentOf(invoice) === intentId && !invoice.byCard)
              .map((invoice) => session(invoice, sandboxStore.baseUrl(), false))
            return answer(reply, 200, { object: 'list', url: '/v1/checkout/sessions', has_more: false, data })
          }),
        )
        stripeApp.post('/v1/payment_intents', guarded(payOnce))
        stripeApp.get(
          '/v1/payment_intents',
          guarded(async (request, reply, key) => {
            const { customer } = request.query as Query
            const invoices = await sandboxStore.records.all<SandboxInvoice>(invoiceKind)
            const data = invoices
              .filter(({ account, byCard }) => account === key && byCard?.customer === customer)
              .map(intent)
            return answer(reply, 200, { object: 'list', url: '/v1/payment_intents', has_more: false, data })
          }),
        )
        stripeApp.get(
          '/v1/payment_intents/:id',
          guarded(async (request, reply, key) => {
            const { id } = request.params as { id: string }
            const invoice = await findInvoice(key, id.replace(/^pi_/, 'cs_test_'))
            return invoice ? answer(reply, 200, intent(invoice)) : notFound(reply, `payment_intent: ${id}`)
          }),
        )
        stripeApp.post(
          '/v1/payment_methods/:id/detach',
          guarded(async (request, reply, key) => {
            const { id } = request.params as { id: string }
            const setup = await findSetup(key, id.replace(/^pm_/, 'cs_setup_'))
            if (!setup) return notFound(reply, `PaymentMethod: ${id}`)
            await sandboxStore.records.change<Setup>(setupKind, setup.id, () => ({ ...setup, removed: true }))
            return answer(reply, 200, { id, object: 'payment_method', customer: null })
          }),
        )
        const page = (reply: FastifyReply, status: number, text: string) =>
          reply.code(status).header('content-type', 'text/html; charset=utf-8').send(text)
        stripeApp.get('/pay/:id/card', async (request, reply) => {
          const { id } = request.params as { id: string }
          const setup = await sandboxStore.records.get<Setup>(setupKind, id)
          return setup
            ? page(reply, 200, setupPage(setup))
            : page(reply, 404, notFoundPage('No page is here'))
        })
        stripeApp.post('/pay/:id/card', async (request, reply) => {
          const { id } = request.params as { id: string }
          const card = new URLSearchParams(String(request.body ?? '')).get('card') ?? ''
          const setup = card in setupCards ? await saveCard(id, card as SetupCard) : null
          return setup
            ? reply.redirect(setup.returnUrl, 303)
            : page(reply, 404, notFoundPage('No such card, or no such page'))
        })
        stripeApp.get(
          '/v1/charges/:id',
          guarded(async (request, reply, key) => {
            const { id } = request.params as { id: string }
            const invoice = (await paidInvoices(key)).find(({ payments }) => payments[0]?.id === id)
            return invoice ? answer(reply, 200, charge(invoice)) : notFound(reply, `charge: ${id}`)
          }),
        )
        stripeApp.post('/v1/refunds', guarded(refundOnce))
        stripeApp.get(
          '/v1/refunds',
          guarded(async (request, reply, key) => {
            const query = request.query as Query
            const since = Number(query['created[gte]'] ?? 0)
            const expanded = decodeURIComponent(request.url).includes('balance_transaction')
            const data = (await paidInvoices(key))
              .filter(({ payments }) => query.charge === undefined || payments[0]?.id === query.charge)
              .filter(
                (invoice) => query.payment_intent === undefined || intentOf(invoice) === query.payment_intent,
              )
              .flatMap((invoice) => refundsOf(invoice).map((one) => refund(invoice, one, expanded)))
              .filter(({ created }) => created >= since)
            return answer(reply, 200, { object: 'list', url: '/v1/refunds', has_more: false, data })
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
          before.status === 'processing' || invoice.byCard
            ? ['async_payment_failed']
            : ['completed', 'async_payment_failed'],
        dispute: ['charge.dispute.created'],
        'close-dispute': ['charge.dispute.funds_reinstated', 'charge.dispute.closed'],
        refund: ['charge.refunded'],
        'fail-refund': ['refund.failed'],
        'mark-settled': [],
        'mark-invalid': [],
        euros: [],
      }
      /** The object of a callback. */
      const objectOf = (type: string) => {
        if (type.startsWith('charge.dispute.')) return dispute(invoice, invoice.payments[0]?.disputeId ?? '')
        if (type === 'charge.refunded') return charge(invoice)
        const lastRefund = refundsOf(invoice).at(-1)
        return type.startsWith('refund.') && lastRefund
          ? refund(invoice, lastRefund, false)
          : session(invoice, sandboxStore.baseUrl(), false)
      }
      return types[action.kind].map((type) => {
        const callback = invoice.byCard && intentTypes[type]
        if (callback) return callbackOf(callback, intent(invoice), account)
        const name = /^(charge|refund)[.]/.test(type) ? type : `checkout.session.${type}`
        return callbackOf(name, objectOf(type), account, invoice.amountCents)
      })
    },
  }
}

const transactionOf = (id: string, amount: number, currency: string, createdAtMs: number, fee = 0) => ({
  id,
  object: 'balance_transaction',
  amount,
  created: Math.floor(createdAtMs / 1000),
  currency,
  fee,
})

const dispute = (invoice: SandboxInvoice, id: string) => {
  const payment = invoice.payments.find(({ disputeId }) => disputeId === id)
  const cents = payment?.cents ?? 0
  const repaidCents = payment?.returnedCents
  const disputedAtMs = payment?.disputedAtMs ?? 0
  const currency = currencyOf(invoice)
  return {
    id,
    object: 'dispute',
    amount: cents,
    balance_transactions: [
      transactionOf(`txn_${id}`, 0 - cents, currency, disputedAtMs, 1_500),
      ...(repaidCents
        ? [transactionOf(`txn_${id}_returned`, repaidCents, currency, disputedAtMs + 1_000)]
        : []),
    ],
    charge: payment?.id ?? null,
    created: Math.floor(disputedAtMs / 1000),
    currency,
    payment_intent: intentOf(invoice),
    reason: 'fraudulent',
    status: repaidCents === undefined ? 'needs_response' : repaidCents > 0 ? 'won' : 'lost',
  }
}

/** The charge of a session, with its refunds. */
const charge = (invoice: SandboxInvoice) => {
  const payment = invoice.payments[0]
  const refunded = refundedCents(invoice)
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

/** @param expanded whether the balance transactions are included, instead of their ids */
const refund = (
  invoice: SandboxInvoice,
  { id, cents, atMs, failedAtMs, metadata = {} }: SandboxRefund,
  expanded: boolean,
) => {
  const currency = currencyOf(invoice)
  const transaction = (transactionId: string, amount: number, createdAtMs: number) =>
    expanded ? transactionOf(transactionId, amount, currency, createdAtMs) : transactionId
  return {
    id: `re_${id}`,
    object: 'refund',
    amount: cents,
    balance_transaction: transaction(`txn_${id}`, 0 - cents, atMs),
    charge: invoice.payments[0]?.id ?? null,
    created: Math.floor(atMs / 1000),
    currency,
    failure_balance_transaction:
      failedAtMs === undefined ? null : transaction(`txn_${id}_failed`, cents, failedAtMs),
    metadata,
    payment_intent: intentOf(invoice),
    status: failedAtMs === undefined ? 'succeeded' : 'failed',
  }
}
