import { randomBytes } from 'node:crypto'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { Provider } from '../payments/rails.ts'
import { btcpayStandIn } from './btcpay.ts'
import { createSender } from './callbacks.ts'
import { after, type Deed, paidCents, refusal, type SandboxInvoice } from './invoice.ts'
import { nowpaymentsStandIn } from './nowpayments.ts'
import { payPage } from './page.ts'
import type { Records } from './records.ts'
import { stripeStandIn } from './stripe.ts'
import { calm, type Switches, SwitchesShape } from './switches.ts'
import { telegramStandIn } from './telegram.ts'
import { answer, invoiceKind, type SandboxAccount, type StandIn, type Till } from './till.ts'

export type Sandbox = {
  /** E.g. `http://127.0.0.1:40321`. */
  readonly baseUrl: string
  /** Resolves when no callback is on its way. */
  idle(): Promise<void>
  close(): Promise<void>
}

const AccountShape = z.strictObject({
  provider: z.enum(['stripe', 'btcpay', 'nowpayments']),
  key: z.string(),
  webhookUrl: z.url(),
  webhookSecret: z.string(),
})
const PayShape = z.strictObject({ amount_cents: z.int().min(1).optional() })

/** How an invoice is shown to people who test: the same for each provider. */
const shown = (invoice: SandboxInvoice) => ({
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

/**
 * The stand-ins of the payment providers on one loopback port: their APIs, a pay page for each invoice, and
 * `/_sandbox/` to pay by HTTP and to make callbacks fail. Nothing here is ever real, and it says so.
 */
export const startSandbox = async (options: {
  readonly records: Records
  readonly clock: () => number
  /** 0 takes a free port. */
  readonly port: number
  readonly random?: () => number
  readonly say?: (what: string) => void
}): Promise<Sandbox> => {
  const { records, clock } = options
  const hex = (digits: number): string =>
    randomBytes(Math.ceil(digits / 2))
      .toString('hex')
      .slice(0, digits)
  const random = options.random ?? Math.random
  let switches: Switches = calm
  let baseUrl = ''
  const sender = createSender({
    clock,
    random,
    switches: () => switches,
    say: options.say ?? (() => undefined),
  })

  const accountId = (provider: Provider, key: string): string => `${provider} ${key}`
  const till: Till = {
    records,
    clock,
    hex,
    baseUrl: () => baseUrl,
    account: (provider, key) => records.get<SandboxAccount>('account', accountId(provider, key)),
    find: async (id) => {
      const invoice = await records.get<SandboxInvoice>(invoiceKind, id)
      // Time closes an invoice at the provider whether or not anybody looks.
      if (invoice?.status !== 'open' || clock() < invoice.expiresAtMs) return invoice
      const done = await till.act(id, { kind: 'expire' })
      return 'refused' in done ? invoice : done.invoice
    },
    add: async (invoice) => {
      // The reference first: a kill in between leaves one that leads nowhere, which a retry mends. The other way round
      // the retry would find the invoice made and leave it without its reference.
      await records.change<{ id: string }>('reference', invoice.reference, () => ({ id: invoice.id }))
      const kept = await records.change<SandboxInvoice>(
        invoiceKind,
        invoice.id,
        (standing) => standing ?? invoice,
      )
      return kept ?? invoice
    },
    act: async (id, deed) => {
      let why: string | null = 'no invoice has this id'
      let before: SandboxInvoice | null = null
      const invoice = await records.change<SandboxInvoice>(invoiceKind, id, (standing) => {
        before = standing
        why = standing === null ? why : refusal(standing, deed)
        return standing === null || why !== null ? null : after(standing, deed, clock())
      })
      if (why !== null || invoice === null || before === null) return { refused: why ?? 'nothing happened' }
      const account = await till.account(invoice.provider, invoice.account)
      if (account)
        for (const outgoing of standIns[invoice.provider].callbacks(before, invoice, deed, account))
          sender.send(outgoing)
      return { invoice }
    },
  }
  const standIns: Readonly<Record<Provider, StandIn>> = {
    stripe: stripeStandIn(till),
    btcpay: btcpayStandIn(till),
    nowpayments: nowpaymentsStandIn(till),
  }

  const app = Fastify({ bodyLimit: 262_144, forceCloseConnections: true })
  /** Whether the call is one of an API whose faults are switched: never a hand at the controls or a payer. */
  const isFaulty = ({ url }: FastifyRequest): boolean => {
    if (url.startsWith('/_sandbox/') || url.startsWith('/pay/')) return false
    const provider = /^\/(btcpay|nowpayments)\//.exec(url)?.[1] ?? 'stripe'
    return switches.apiOf === null || switches.apiOf === provider
  }
  /** Breaks the connection of a call where the switches say so; nobody hears an answer to it. */
  const cut = (when: 'before' | 'after', request: FastifyRequest, reply: FastifyReply): boolean => {
    if (!isFaulty(request) || switches.apiCut !== when || random() >= switches.apiCutShare) return false
    if (when === 'before') reply.hijack()
    request.raw.socket.destroy()
    return true
  }
  app.addHook('onRequest', async (request, reply) => {
    if (!isFaulty(request)) return undefined
    if (switches.apiSlowMs > 0) await sleep(switches.apiSlowMs)
    if (cut('before', request, reply)) return reply
    if (switches.down) return answer(reply, 503, { error: { type: 'api_error', message: 'SANDBOX: down' } })
    return undefined
  })
  app.addHook('onSend', async (request, reply, payload) => {
    cut('after', request, reply)
    return payload
  })
  for (const standIn of Object.values(standIns)) standIn.routes(app)
  telegramStandIn(app, till)
  controls(app, till, standIns, {
    set: (change) => {
      switches = { ...switches, ...change }
      return switches
    },
    reset: () => {
      switches = calm
      return switches
    },
    keep: (account) =>
      records.change<SandboxAccount>('account', accountId(account.provider, account.key), () => account),
  })
  await app.listen({ host: '127.0.0.1', port: options.port })
  baseUrl = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`
  return {
    baseUrl,
    idle: sender.idle,
    close: async () => {
      sender.stop()
      await app.close()
    },
  }
}

type Knobs = {
  set(change: Partial<Switches>): Switches
  reset(): Switches
  keep(account: SandboxAccount): Promise<unknown>
}

const controls = (
  app: FastifyInstance,
  till: Till,
  standIns: Readonly<Record<Provider, StandIn>>,
  knobs: Knobs,
): void => {
  /** By the provider's id of the invoice, or by the deposit's. */
  const find = async (id: string): Promise<SandboxInvoice | null> => {
    const byId = await till.find(id)
    if (byId) return byId
    const reference = await till.records.get<{ id: string }>('reference', id)
    return reference && till.find(reference.id)
  }
  const paramOf = (request: FastifyRequest): string => (request.params as { id: string }).id
  const notFound = (reply: FastifyReply) => answer(reply, 404, { error: 'no invoice has this id' })

  const deedOf = (invoice: SandboxInvoice, kind: string, cents: number): Deed | null => {
    if (kind === 'pay') return { kind, cents, paymentId: standIns[invoice.provider].paymentId() }
    if (kind === 'dispute') return { kind, disputeId: `dp_${till.hex(24)}` }
    if (kind === 'process' || kind === 'expire' || kind === 'fail') return { kind }
    return null
  }
  const dueOf = (invoice: SandboxInvoice): number =>
    Math.max(invoice.amountCents - paidCents(invoice), 0) || invoice.amountCents

  app.post('/_sandbox/invoices/:id/:deed', async (request, reply) => {
    const invoice = await find(paramOf(request))
    if (!invoice) return notFound(reply)
    const body = PayShape.safeParse(request.body ?? {})
    if (!body.success)
      return answer(reply, 400, { error: 'the body takes {"amount_cents": whole cents above 0}' })
    const { deed: kind } = request.params as { deed: string }
    const deed = deedOf(invoice, kind, body.data.amount_cents ?? dueOf(invoice))
    if (!deed) return answer(reply, 404, { error: 'an invoice can be: pay, process, expire, fail, dispute' })
    const done = await till.act(invoice.id, deed)
    if ('refused' in done) return answer(reply, 409, { error: done.refused, ...shown(invoice) })
    return answer(reply, 200, shown(done.invoice))
  })
  app.get('/_sandbox/invoices/:id', async (request, reply) => {
    const invoice = await find(paramOf(request))
    return invoice ? answer(reply, 200, shown(invoice)) : notFound(reply)
  })
  app.get('/_sandbox/invoices', async (_request, reply) => {
    const invoices = await till.records.all<SandboxInvoice>(invoiceKind)
    return answer(reply, 200, { invoices: invoices.map(shown) })
  })
  app.put('/_sandbox/switches', async (request, reply) => {
    const change = SwitchesShape.safeParse(request.body)
    if (!change.success) return answer(reply, 400, { error: z.prettifyError(change.error) })
    return answer(reply, 200, knobs.set(change.data as Partial<Switches>))
  })
  app.delete('/_sandbox/switches', async (_request, reply) => answer(reply, 200, knobs.reset()))
  app.put('/_sandbox/accounts', async (request, reply) => {
    const account = AccountShape.safeParse(request.body)
    if (!account.success) return answer(reply, 400, { error: z.prettifyError(account.error) })
    await knobs.keep(account.data)
    return answer(reply, 200, {})
  })
  pages(app, find, deedOf, till)
}

const pages = (
  app: FastifyInstance,
  find: (id: string) => Promise<SandboxInvoice | null>,
  deedOf: (invoice: SandboxInvoice, kind: string, cents: number) => Deed | null,
  till: Till,
): void => {
  const html = (reply: FastifyReply, status: number, text: string) =>
    reply.code(status).header('content-type', 'text/html; charset=utf-8').send(text)
  const gone = '<!doctype html><title>SANDBOX</title><h1>SANDBOX</h1><p>No invoice has this address.</p>'
  app.register(async (pageApp) => {
    pageApp.addContentTypeParser(
      'application/x-www-form-urlencoded',
      { parseAs: 'string' },
      (_request, body, done) => done(null, body),
    )
    pageApp.get('/pay/:id', async (request, reply) => {
      const invoice = await find((request.params as { id: string }).id)
      return invoice ? html(reply, 200, payPage(invoice, null)) : html(reply, 404, gone)
    })
    pageApp.post('/pay/:id', async (request, reply) => {
      const invoice = await find((request.params as { id: string }).id)
      if (!invoice) return html(reply, 404, gone)
      const form = new URLSearchParams(String(request.body ?? ''))
      const [kind = '', named] = (form.get('deed') ?? '').split(':')
      const cents = Number(kind === 'amount' ? form.get('cents') : named)
      const steps = { twice: ['pay', 'pay'], late: ['expire', 'pay'], amount: ['pay'] }[kind] ?? [kind]
      let said: string | null = null
      for (const step of steps) {
        const deed = deedOf(invoice, step, cents)
        const done = deed ? await till.act(invoice.id, deed) : { refused: 'there is no such button' }
        if ('refused' in done) said = done.refused
      }
      if (said === null) return reply.redirect(`/pay/${invoice.id}`, 303)
      return html(reply, 409, payPage((await find(invoice.id)) ?? invoice, said))
    })
  })
}
