import { createHash, randomBytes } from 'node:crypto'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import Fastify from 'fastify'
import type { Provider } from '../domain/payments/payments.ts'
import { btcpaySandbox } from './btcpay-sandbox.ts'
import { controlRoutes, type FaultControls } from './controls.ts'
import { feedRoutes, type SandboxProxies, storeFeeds } from './free-list/feeds.ts'
import { indexRoutes } from './index-page.ts'
import { actionRefusal, applyAction, noFaults, type SandboxInvoice, type Switches } from './invoice.ts'
import { startMailbox } from './mailbox.ts'
import { nowpaymentsSandbox } from './nowpayments-sandbox.ts'
import { exitControls, type SandboxExits } from './sandbox-exits.ts'
import { payPageRoutes } from './sandbox-pages.ts'
import {
  answer,
  createInvoiceActions,
  invoiceKind,
  type ProviderSandbox,
  type SandboxAccount,
  type SandboxRecords,
  type SandboxStore,
} from './sandbox-store.ts'
import { scraperSandbox, scrapersPath } from './scrapers/scraper-sandbox.ts'
import { createCallbackSender } from './send-callbacks.ts'
import { stripeSandbox } from './stripe-sandbox.ts'
import { telegramSandbox } from './telegram-sandbox.ts'

const loopbackNames = new Set(['127.0.0.1', 'localhost', '[::1]'])

const isLoopbackHost = (host: string | undefined): boolean =>
  host !== undefined && loopbackNames.has(URL.parse(`http://${host}`)?.hostname ?? '')

/** A content security policy that allows only the inline styles of the page, and forms to this server. */
const policyOf = (page: string): string => {
  const styles = page
    .split('<style>')
    .slice(1)
    .map((part) => part.split('</style>', 1)[0] ?? '')
    .map((style) => `'sha256-${createHash('sha256').update(style).digest('base64')}'`)
  const styled = styles.length === 0 ? '' : `; style-src ${styles.join(' ')}`
  return `default-src 'none'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'${styled}`
}

/**
 * Protects the sandbox from pages of other sites. It needs no login on this machine. Another site can
 * resolve its own name to this server (DNS rebinding), but its requests then have that name as `Host` and are answered
 * 421. Pages of the sandbox run no scripts.
 */
export const guardSandbox = (app: FastifyInstance): void => {
  app.addHook('onRequest', async (request, reply) => {
    if (isLoopbackHost(request.headers.host)) return undefined
    return answer(reply, 421, {
      error: `SANDBOX: the Host must be one of ${[...loopbackNames].join(', ')}, with any port`,
    })
  })
  app.addHook('onSend', async (_request, reply, payload) => {
    const isPage = String(reply.getHeader('content-type') ?? '').startsWith('text/html')
    reply.header('x-content-type-options', 'nosniff')
    reply.header(
      'content-security-policy',
      isPage ? policyOf(String(payload)) : "default-src 'none'; frame-ancestors 'none'",
    )
    return payload
  })
}

export type Sandbox = {
  /** E.g. `http://127.0.0.1:40321`. */
  readonly baseUrl: string
  /** The address of its mail server, e.g. `smtp://127.0.0.1:40325`. */
  readonly smtpUrl: string
  /** Resolves when no callback is in progress. */
  idle(): Promise<void>
  close(): Promise<void>
}

/**
 * Starts the simulated payment providers on one loopback port: their APIs, a pay page for each invoice, the list
 * of invoices at `/`, the simulated provider of scrapers, and `/_sandbox/` for payments over HTTP and for faults.
 * Nothing is real, and every page says so.
 */
export const startSandbox = async (options: {
  readonly records: SandboxRecords
  readonly clock: () => number
  /** 0 chooses a free port. */
  readonly port: number
  readonly random?: () => number
  readonly say?: (what: string) => void
  /** Exits of the proxy gateway, for the controls. */
  readonly exits?: SandboxExits
  /** Free proxies. This server serves their feeds. */
  readonly freeProxies?: SandboxProxies
}): Promise<Sandbox> => {
  const { records, clock } = options
  const hex = (digits: number): string =>
    randomBytes(Math.ceil(digits / 2))
      .toString('hex')
      .slice(0, digits)
  const random = options.random ?? Math.random
  let switches: Switches = noFaults
  let baseUrl = ''
  const sender = createCallbackSender({
    clock,
    random,
    switches: () => switches,
    say: options.say ?? (() => undefined),
  })

  const accountId = (provider: Provider, key: string): string => `${provider} ${key}`
  const sandboxStore: SandboxStore = {
    records,
    clock,
    hex,
    baseUrl: () => baseUrl,
    send: sender.send,
    account: (provider, key) => records.get<SandboxAccount>('account', accountId(provider, key)),
    find: async (id) => {
      const invoice = await records.get<SandboxInvoice>(invoiceKind, id)
      // An invoice expires at the provider without a request. Here it expires with the next read.
      if (invoice?.status !== 'open' || clock() < invoice.expiresAtMs) return invoice
      const done = await sandboxStore.act(id, { kind: 'expire' })
      return 'refused' in done ? invoice : done.invoice
    },
    add: async (invoice) => {
      // The reference is stored first: a crash in between leaves a reference without an invoice, and a retry adds the
      // invoice. In the other order the retry would find the invoice and never store its reference.
      await records.change<{ id: string }>('reference', invoice.reference, () => ({ id: invoice.id }))
      const storedInvoice = await records.change<SandboxInvoice>(
        invoiceKind,
        invoice.id,
        (existing) => existing ?? invoice,
      )
      return storedInvoice ?? invoice
    },
    act: async (id, invoiceAction) => {
      let refusal: string | null = 'no invoice has this id'
      let before: SandboxInvoice | null = null
      const invoice = await records.change<SandboxInvoice>(invoiceKind, id, (existing) => {
        before = existing
        refusal = existing === null ? refusal : actionRefusal(existing, invoiceAction)
        return existing === null || refusal !== null ? null : applyAction(existing, invoiceAction, clock())
      })
      if (refusal !== null || invoice === null || before === null)
        return { refused: refusal ?? 'nothing happened' }
      const account = await sandboxStore.account(invoice.provider, invoice.account)
      if (account)
        for (const outgoing of providers[invoice.provider].callbacks(before, invoice, invoiceAction, account))
          sender.send(outgoing)
      return { invoice }
    },
  }
  const providers: Readonly<Record<Provider, ProviderSandbox>> = {
    stripe: stripeSandbox(sandboxStore),
    btcpay: btcpaySandbox(sandboxStore),
    nowpayments: nowpaymentsSandbox(sandboxStore),
  }

  const app = Fastify({ bodyLimit: 262_144, forceCloseConnections: true })
  guardSandbox(app)
  /** Whether API faults apply to the request. They never apply to the controls, the pay pages and the mailbox. */
  const isFaulty = ({ url }: FastifyRequest): boolean => {
    if (url === '/' || url.startsWith('/_sandbox/') || url.startsWith('/pay/') || url === '/mail')
      return false
    if (url.startsWith(`${scrapersPath}/`)) return false
    const provider = /^\/(btcpay|nowpayments)\//.exec(url)?.[1] ?? 'stripe'
    return switches.apiOf === null || switches.apiOf === provider
  }
  /** Breaks the connection of a call according to the switches. The client then gets no answer. */
  const breakConnection = (
    phase: 'before' | 'after',
    request: FastifyRequest,
    reply: FastifyReply,
  ): boolean => {
    if (!isFaulty(request) || switches.apiCut !== phase || random() >= switches.apiCutShare) return false
    if (phase === 'before') reply.hijack()
    request.raw.socket.destroy()
    return true
  }
  app.addHook('onRequest', async (request, reply) => {
    if (!isFaulty(request)) return undefined
    if (switches.apiSlowMs > 0) await sleep(switches.apiSlowMs)
    if (breakConnection('before', request, reply)) return reply
    if (switches.down) return answer(reply, 503, { error: { type: 'api_error', message: 'SANDBOX: down' } })
    return undefined
  })
  app.addHook('onSend', async (request, reply, payload) => {
    breakConnection('after', request, reply)
    return payload
  })
  for (const standIn of Object.values(providers)) standIn.routes(app)
  telegramSandbox(app, sandboxStore)
  scraperSandbox(app, clock)
  const invoiceActions = createInvoiceActions(sandboxStore, providers)
  const faultControls: FaultControls = {
    now: () => switches,
    set: (change) => {
      switches = { ...switches, ...change }
      return switches
    },
    reset: () => {
      switches = noFaults
      return switches
    },
    keep: (account) =>
      records.change<SandboxAccount>('account', accountId(account.provider, account.key), () => account),
  }
  controlRoutes(app, sandboxStore, invoiceActions, faultControls)
  if (options.exits) exitControls(app, options.exits)
  if (options.freeProxies) feedRoutes(app, options.freeProxies.running)
  indexRoutes(app, sandboxStore, faultControls)
  payPageRoutes(app, sandboxStore, invoiceActions)
  const mailbox = await startMailbox(records, clock)
  mailbox.routes(app)
  try {
    await app.listen({ host: '127.0.0.1', port: options.port })
  } catch (error) {
    await mailbox.close()
    throw error
  }
  baseUrl = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`
  if (options.freeProxies) await storeFeeds(records, baseUrl)
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
