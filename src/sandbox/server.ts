import { randomBytes } from 'node:crypto'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import Fastify, { type FastifyReply, type FastifyRequest } from 'fastify'
import type { Provider } from '../money/payments/rails.ts'
import { btcpayStandIn } from './btcpay.ts'
import { createSender } from './callbacks.ts'
import { controlRoutes, type Knobs } from './controls.ts'
import { exitControls, type SandboxExits } from './exits.ts'
import { feedRoutes } from './freelist/feeds.ts'
import { keepFeeds, type SandboxProxies } from './freelist/open.ts'
import { guardSandbox } from './guard.ts'
import { createHands } from './hands.ts'
import { indexRoutes } from './index-page.ts'
import { after, refusal, type SandboxInvoice } from './invoice.ts'
import { startMailbox } from './mailbox.ts'
import { nowpaymentsStandIn } from './nowpayments.ts'
import { payPageRoutes } from './pay-pages.ts'
import type { Records } from './records.ts'
import { scrapersPath, scrapersStandIn } from './scrapers/stand-in.ts'
import { stripeStandIn } from './stripe.ts'
import { calm, type Switches } from './switches.ts'
import { telegramStandIn } from './telegram.ts'
import { answer, invoiceKind, type SandboxAccount, type StandIn, type Till } from './till.ts'

export type Sandbox = {
  /** E.g. `http://127.0.0.1:40321`. */
  readonly baseUrl: string
  /** Where its mail server takes letters, e.g. `smtp://127.0.0.1:40325`. */
  readonly smtpUrl: string
  /** Resolves when no callback is on its way. */
  idle(): Promise<void>
  close(): Promise<void>
}

/**
 * The stand-ins of the payment providers on one loopback port: their APIs, a pay page for each invoice, `/` with all of
 * them, the stand-in of the scrapers' provider, and `/_sandbox/` to pay by HTTP and to make callbacks fail. Nothing here is ever real, and it says so.
 */
export const startSandbox = async (options: {
  readonly records: Records
  readonly clock: () => number
  /** 0 takes a free port. */
  readonly port: number
  readonly random?: () => number
  readonly say?: (what: string) => void
  /** Exits of the proxy gateway that run beside it. */
  readonly exits?: SandboxExits
  /** Free proxies that run beside it; their feeds are served here. */
  readonly freeProxies?: SandboxProxies
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
  guardSandbox(app)
  /** Whether the call is one of an API whose faults are switched: never a hand at the controls or a payer. */
  const isFaulty = ({ url }: FastifyRequest): boolean => {
    if (url === '/' || url.startsWith('/_sandbox/') || url.startsWith('/pay/') || url === '/mail')
      return false
    if (url.startsWith(`${scrapersPath}/`)) return false
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
  scrapersStandIn(app, clock)
  const hands = createHands(till, standIns)
  const knobs: Knobs = {
    now: () => switches,
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
  }
  controlRoutes(app, till, hands, knobs)
  if (options.exits) exitControls(app, options.exits)
  if (options.freeProxies) feedRoutes(app, options.freeProxies.running)
  indexRoutes(app, till, knobs)
  payPageRoutes(app, till, hands)
  const mailbox = await startMailbox(records, clock)
  mailbox.routes(app)
  try {
    await app.listen({ host: '127.0.0.1', port: options.port })
  } catch (error) {
    await mailbox.close()
    throw error
  }
  baseUrl = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`
  if (options.freeProxies) await keepFeeds(records, baseUrl)
  return {
    baseUrl,
    smtpUrl: mailbox.url,
    idle: sender.idle,
    close: async () => {
      sender.stop()
      await options.exits?.close()
      await mailbox.close()
      await options.freeProxies?.close()
      await app.close()
    },
  }
}
