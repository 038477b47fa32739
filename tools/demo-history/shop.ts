import { Pool } from 'undici'
import type { Deposits } from '../../src/features/deposits/index.ts'
import type { Cause } from '../../src/kernel/event.ts'
import { type DepositId, newId } from '../../src/kernel/ids.ts'
import type { Random } from './rhythm.ts'

/** An account with its keys and its payment method. */
export type Client = {
  readonly accountId: string
  /** The key for purchases and for the wallet. */
  readonly key: string
  readonly scrapeKey: string
  readonly rail: 'card' | 'crypto' | 'alipay'
}

export type OrderAnswer = {
  readonly orderId: string
  readonly planId: string | null
  readonly proxyIds: readonly string[]
  readonly quantity: number
  readonly amountCents: number
}

export type Purchase = {
  readonly path: string
  readonly body: object
  /** The reseller's id of the customer; absent for a purchase of the account itself. */
  readonly customer?: string
}

type Answer = { readonly status: number; readonly body: Record<string, unknown> }

/** Error codes that customers get in normal operation. Any other error ends the history. */
const expectedCodes: ReadonlySet<string> = new Set([
  'account_blocked',
  'insufficient_balance',
  'customer_credit_insufficient',
  'out_of_stock',
  'not_found',
])

/** The amounts of top-ups, cents. */
const amounts = [1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000] as const

/** The smallest of these amounts that covers 120 % of the missing cents, or the largest amount. */
export const topUpOf = (shortCents: number): number =>
  amounts.find((cents) => cents >= shortCents * 1.2) ?? amounts.at(-1)!

/** The probabilities of the outcomes of a payment. */
const outcomeWeights = { paid: 0.955, expire: 0.03, fail: 0.015 } as const

/** The probability of a card dispute, and its delay in days. */
const disputeOdds = { chance: 0.006, fromDays: 9, toDays: 35 } as const

/** A payment with a future dispute. */
export type Disputed = {
  readonly accountId: string
  readonly depositId: DepositId
  readonly afterDays: number
}

/** The actions of customers, over the API and in the sandbox, at the time of the service's clock. */
export type Shop = {
  /** Buys. If the balance is insufficient, it tops up the wallet and tries again. Null without an order. */
  buy(client: Client, purchase: Purchase, random: Random): Promise<OrderAnswer | null>
  /** Opens a deposit and usually pays it. False if no payment arrived. */
  deposit(client: Client, cents: number, random: Random, customer?: string): Promise<boolean>
  /** The balance of the wallet, cents. */
  balanceCents(client: Client): Promise<number>
  /** Starts a subscription, with top-ups as for `buy`. Null without a subscription. */
  subscribe(client: Client, body: object, random: Random): Promise<{ readonly subscriptionId: string } | null>
  cancel(client: Client, subscriptionId: string): Promise<void>
  /** @throws Error for an answer 400 or from 500 on */
  scrape(client: Client, scraper: string, body: object): Promise<void>
  /** Reads the state of an invoice from its provider, because callbacks are lost. */
  settle(depositId: DepositId): Promise<void>
  /** Opens a dispute of a card payment in the sandbox. */
  dispute(depositId: DepositId): Promise<void>
  /** The payments with future disputes since the last call. */
  takeDisputed(): readonly Disputed[]
  /** The deposits with an unpaid invoice since the last call. */
  takeUnpaid(): readonly DepositId[]
  close(): Promise<void>
}

export const depositsCause = (): Cause => ({
  actor: { kind: 'system', name: 'deposits' },
  correlationId: newId('run'),
})

/** Creates the shop. Its functions throw an Error for an API answer that is not normal operation. */
export const createShop = (dependencies: {
  readonly baseUrl: string
  readonly sandboxUrl: string
  readonly deposits: Pick<Deposits, 'settle'>
}): Shop => {
  const api = new Pool(dependencies.baseUrl, { connections: 32 })
  const sandbox = new Pool(dependencies.sandboxUrl, { connections: 16 })
  let toDispute: Disputed[] = []
  let unpaid: DepositId[] = []
  /** Request counters per account, so that request ids do not depend on concurrent actions of other accounts. */
  const nameCounts = new Map<string, number>()
  const nameFor = ({ accountId }: Client): string => {
    const n = (nameCounts.get(accountId) ?? 0) + 1
    nameCounts.set(accountId, n)
    return `history-${n}`
  }

  const send = async (
    pool: Pool,
    method: 'GET' | 'POST' | 'PUT' | 'DELETE',
    path: string,
    headers: Record<string, string>,
    payload?: object,
  ): Promise<Answer> => {
    const { statusCode, body } = await pool.request({
      method,
      path,
      headers: { ...headers, ...(payload && { 'content-type': 'application/json' }) },
      ...(payload && { body: JSON.stringify(payload) }),
    })
    const answer = { status: statusCode, body: (await body.json()) as Record<string, unknown> }
    if (statusCode < 400 || expectedCodes.has(String(answer.body.code))) return answer
    throw new Error(`${method} ${path} was answered ${statusCode}: ${JSON.stringify(answer.body)}`)
  }
  const headersOf = (client: Client, name: string, customer?: string): Record<string, string> => ({
    'x-api-key': client.key,
    'idempotency-key': name,
    ...(customer !== undefined && { 'x-reseller-customer-id': customer }),
  })
  const invoiceAction = (depositId: DepositId, name: string) =>
    send(sandbox, 'POST', `/_sandbox/invoices/${depositId}/${name}`, {}, {})

  const settle: Shop['settle'] = async (depositId) => {
    await dependencies.deposits.settle(depositId, depositsCause())
  }

  const deposit: Shop['deposit'] = async (client, cents, random, customer) => {
    const method = customer !== undefined ? 'card' : client.rail
    const opened = await send(api, 'POST', '/api/v1/deposits', headersOf(client, nameFor(client), customer), {
      amount_cents: cents,
      method,
    })
    if (opened.status >= 400) return false
    const depositId = opened.body.deposit_id as DepositId
    const outcome = random.weighted(outcomeWeights)
    if (outcome === 'expire') {
      unpaid.push(depositId)
      return false
    }
    await invoiceAction(depositId, outcome === 'paid' ? 'pay' : 'fail')
    await settle(depositId)
    if (outcome !== 'paid') return false
    if (method === 'card' && customer === undefined && random.chance(disputeOdds.chance))
      toDispute.push({
        accountId: client.accountId,
        depositId,
        afterDays: random.whole(disputeOdds.fromDays, disputeOdds.toDays),
      })
    return true
  }

  /**
   * Makes a deposit for the missing amount of a refusal. False if the refusal has another reason or the deposit fails.
   */
  const payFor = async (
    { body }: Answer,
    client: Client,
    random: Random,
    customer: string | undefined,
  ): Promise<boolean> => {
    const shortCents = Number(body.shortfallCents ?? 0)
    if (body.code === 'insufficient_balance')
      // Twice the missing amount, so that the balance lasts for some time. Large amounts need several payments.
      return deposit(client, topUpOf(shortCents * 2), random)
    if (body.code === 'customer_credit_insufficient')
      return deposit(client, topUpOf(shortCents), random, customer)
    return false
  }

  /** Sends a request. After a deposit for the missing amount it sends the request again, under the same key. */
  const sendAndPay = async (
    client: Client,
    { path, body, customer }: Purchase,
    random: Random,
  ): Promise<Answer | null> => {
    const headers = headersOf(client, nameFor(client), customer)
    for (let tries = 0; tries < 6; tries += 1) {
      const answer = await send(api, 'POST', path, headers, body)
      if (answer.status < 400) return answer
      if (!(await payFor(answer, client, random, customer))) return null
    }
    return null
  }

  return {
    deposit,
    settle,
    buy: async (client, purchase, random) => {
      const answer = await sendAndPay(client, purchase, random)
      return answer && (answer.body as unknown as OrderAnswer)
    },
    balanceCents: async (client) => {
      const { body } = await send(api, 'GET', '/api/v1/wallet', { 'x-api-key': client.key })
      return Number(body.balanceCents ?? 0)
    },
    subscribe: async (client, body, random) => {
      const answer = await sendAndPay(client, { path: '/api/v1/subscriptions', body }, random)
      return answer && (answer.body as { subscriptionId: string })
    },
    cancel: async (client, subscriptionId) => {
      await send(api, 'DELETE', `/api/v1/subscriptions/${subscriptionId}`, headersOf(client, nameFor(client)))
    },
    scrape: async (client, scraper, body) => {
      const headers = {
        'x-api-key': client.scrapeKey,
        'x-request-id': `${client.accountId}-${nameFor(client)}`,
      }
      const { statusCode, body: answer } = await api.request({
        method: 'POST',
        path: `/v1/scrape/${scraper}`,
        headers: { ...headers, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      })
      // Refusals of the platform or the wallet are normal. They are part of the usage data.
      await answer.dump()
      if (statusCode === 400 || statusCode >= 500)
        throw new Error(`a call of ${scraper} was answered ${statusCode}`)
    },
    dispute: async (depositId) => {
      await invoiceAction(depositId, 'dispute')
    },
    takeDisputed: () => {
      const taken = toDispute
      toDispute = []
      return taken
    },
    takeUnpaid: () => {
      const taken = unpaid
      unpaid = []
      return taken
    },
    close: async () => {
      await api.close()
      await sandbox.close()
    },
  }
}

/**
 * Switches off the callbacks of the sandbox. During the history payments are polled, because its clock is not the real
 * time.
 */
export const loseCallbacks = async (sandboxUrl: string): Promise<void> => {
  const answer = await fetch(`${sandboxUrl}/_sandbox/switches`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ lost: 1 }),
  })
  if (!answer.ok) throw new Error(`the sandbox answered ${answer.status}`)
}
