import assert from 'node:assert/strict'
import { randomBytes, randomInt } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { call } from '../support/farebox.ts'
import { until } from '../support/until.ts'

/** A client that opens deposits: a key, and the customers that it names (null: its own wallet). */
export type Party = {
  readonly accountId: string
  readonly key: string
  readonly customers: readonly (string | null)[]
  readonly startCents: number
}

/** A deposit as a client requests it, repeatedly, and the answers. */
export type DepositRequest = {
  readonly party: Party
  readonly customer: string | null
  readonly name: string
  readonly body: { readonly amount_cents: number; readonly method: string }
  /**
   * The deposits of its key with their pages, in the order of the answers: the next one follows after one has
   * closed.
   */
  readonly payUrls: Map<string, string>
  /** The last answer was lost: its content is not known. */
  unheard: boolean
}

export type World = {
  readonly sandbox: string
  readonly parties: readonly Party[]
  readonly requests: DepositRequest[]
  readonly found: {
    kills: Record<string, number>
    answers: number
    unanswered: number
    invoices: Record<string, number>
    payments: number
    late: number
    cents: number
  }
}

const json = async (method: string, url: string, body?: unknown) => {
  const response = await fetch(url, {
    method,
    headers: { 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  // biome-ignore lint/suspicious/noExplicitAny: the invoice of the stand-in
  return { status: response.status, body: (await response.json()) as any }
}

const lastOf = ({ payUrls }: DepositRequest): string | undefined => [...payUrls.keys()].at(-1)

/**
 * Requests the deposit; one key is one open deposit and one payment page, in every process and for any number
 * of requests.
 */
const ask = async ({ found }: World, request: DepositRequest, baseUrl: string): Promise<boolean> => {
  const { party, customer, name, body, payUrls } = request
  request.unheard = true
  const { status, body: answer } = await call(`${baseUrl}/api/v1/deposits`, party.key, {
    body,
    headers: {
      'Idempotency-Key': name,
      ...(customer === null ? {} : { 'X-Reseller-Customer-Id': customer }),
    },
  })
  if (status !== 200) {
    assert.ok([502, 503].includes(status), JSON.stringify(answer))
    return false
  }
  request.unheard = false
  const { deposit_id: depositId, pay_url: payUrl } = answer
  assert.ok(
    !payUrls.has(depositId) || depositId === lastOf(request),
    'a deposit that had closed is handed out again',
  )
  assert.equal(payUrl, payUrls.get(depositId) ?? payUrl, 'one deposit, one page')
  payUrls.set(depositId, payUrl)
  found.answers += 1
  return true
}

/** The payer acts on the page of the answer, whatever else the provider created. */
const act = (world: World, { payUrls }: DepositRequest, deed: string, cents?: number) =>
  json(
    'POST',
    `${world.sandbox}/_sandbox/invoices/${[...payUrls.values()].at(-1)?.split('/').at(-1)}/${deed}`,
    cents === undefined ? {} : { amount_cents: cents },
  )

/** What payers do: pay at once, in parts, too much, twice, late, or not at all. */
const pay = async (world: World, request: DepositRequest): Promise<void> => {
  const { method, amount_cents: cents } = request.body
  const due = Math.max(cents, method === 'card' ? 1000 : 300)
  const deeds: readonly (readonly (readonly [string, number?])[])[] = [
    [['pay', due]],
    [['pay', due + 111]],
    [
      ['pay', 123],
      ['pay', due - 123],
    ],
    [
      ['pay', due],
      ['pay', 77],
    ],
    [['pay', 55], ['expire']],
    [['expire'], ['pay', due]],
    [['process'], ['pay', due]],
    [['expire']],
    [['fail']],
  ]
  for (const [deed, amount] of deeds[randomInt(deeds.length)] ?? []) await act(world, request, deed, amount)
}

/** Everything that a provider and the way to it can do wrong, a little of each. */
const switches = () => ({
  lost: Math.random() * 0.5,
  repeats: randomInt(3),
  reorderMs: randomInt(200),
  slowMs: Math.random() < 0.2 ? randomInt(500) : 0,
  forged: Math.random() < 0.3,
  lying: Math.random() < 0.3,
  apiCut: ['never', 'before', 'after'][randomInt(3)],
  apiCutShare: 0.1,
  apiSlowMs: randomInt(30),
})

/**
 * Payers at work, through one address before all processes, until they are called home.
 * @param pauseMs at most, after each deposit
 */
export const trade = (world: World, baseUrl: string, payers: number, pauseMs: number) => {
  let over = false
  const payer = async (): Promise<void> => {
    while (!over) {
      const party = world.parties[randomInt(world.parties.length)] as Party
      const customer = party.customers[randomInt(party.customers.length)] ?? null
      const method = ['card', 'crypto'][randomInt(2)] as string
      const body = { amount_cents: 1 + randomInt(5_000), method }
      const name = randomBytes(6).toString('hex')
      const request: DepositRequest = { party, customer, name, body, payUrls: new Map(), unheard: false }
      world.requests.push(request)
      await json('PUT', `${world.sandbox}/_sandbox/switches`, switches())
      try {
        if (await ask(world, request, baseUrl)) await pay(world, request)
        // A client with a lost answer repeats the request.
        if (Math.random() < 0.3) await ask(world, request, baseUrl)
      } catch (error) {
        if (error instanceof assert.AssertionError) throw error
        world.found.unanswered += 1
        // No listener: a client does not hammer a starting process.
        await sleep(500)
      }
      await sleep(randomInt(pauseMs))
    }
  }
  const all = Promise.all(Array.from({ length: payers }, payer))
  // Callers that wait for it get the result at `home`.
  all.catch(() => undefined)
  return async (): Promise<void> => {
    over = true
    await all
  }
}

type Invoice = {
  readonly id: string
  readonly deposit_id: string
  readonly provider: string
  readonly paid_cents: number
  readonly payments: readonly { readonly late: boolean }[]
}

/**
 * Applies it to all, some concurrently: work that a kill left half done is free again after a while, and many
 * wait for it together.
 */
const forAll = async <Item>(items: Iterable<Item>, deed: (item: Item) => Promise<unknown>): Promise<void> => {
  const left = [...items]
  const lane = async (): Promise<void> => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await deed(item)
  }
  await Promise.all(Array.from({ length: 16 }, lane))
}

/**
 * Every payment of the stand-in is credited once, to its owner, and nothing else is.
 * @param patienceMs how long a payment with a lost callback may wait for the next poll of its deposit
 */
export const audit = async (world: World, baseUrl: string, patienceMs: number): Promise<void> => {
  const { found, parties, requests: all } = world
  await json('DELETE', `${world.sandbox}/_sandbox/switches`)
  // Unanswered requests are repeated, so that no deposit stays between two steps.
  await forAll(
    all.filter(({ unheard, payUrls }) => unheard || payUrls.size === 0),
    (one) => until(() => ask(world, one, baseUrl), { timeoutMs: 60_000, what: 'an answer to a retry' }),
  )
  const { invoices } = (await json('GET', `${world.sandbox}/_sandbox/invoices`)).body as {
    invoices: readonly Invoice[]
  }
  const paid = new Map<string, number>()
  for (const { deposit_id, paid_cents } of invoices)
    paid.set(deposit_id, (paid.get(deposit_id) ?? 0) + paid_cents)
  const requestOf = new Map(all.flatMap((one) => [...one.payUrls.keys()].map((id) => [id, one] as const)))
  const wallets = new Map(parties.map(({ key, startCents }) => [key, startCents]))
  const credits = new Map<string, number>()
  await forAll(paid, async ([depositId, cents]) => {
    const request = requestOf.get(depositId)
    assert.ok(request, 'an invoice for a deposit without an answer')
    const { party, customer } = request
    if (customer === null) wallets.set(party.key, (wallets.get(party.key) ?? 0) + cents)
    else credits.set(`${party.key} ${customer}`, (credits.get(`${party.key} ${customer}`) ?? 0) + cents)
    const read = () => call(`${baseUrl}/api/v1/deposits/${depositId}`, party.key)
    try {
      await until(async () => (await read()).body.credited_cents === cents, { timeoutMs: patienceMs })
    } catch {
      assert.fail(`${depositId} was paid ${cents} and reads ${JSON.stringify((await read()).body)}`)
    }
  })
  for (const { key, customers } of parties) {
    const { balanceCents } = (await call(`${baseUrl}/api/v1/wallet`, key)).body
    assert.equal(balanceCents, wallets.get(key), 'a wallet')
    if (customers.every((customer) => customer === null)) continue
    const { body } = await call(`${baseUrl}/api/v1/reseller/customers`, key)
    for (const { customer, creditCents } of body.customers)
      assert.equal(creditCents, credits.get(`${key} ${customer}`) ?? 0, `the credit of ${customer}`)
  }
  // Stripe's keys and BTCPay's search survive a kill; NOWPayments has neither, and its second invoice is
  // unknown to the service.
  const pages = new Set(
    all.flatMap(({ payUrls }) => [...payUrls.values()].map((payUrl) => payUrl.split('/').at(-1))),
  )
  for (const { id, provider, paid_cents } of invoices)
    assert.ok(
      pages.has(id) || (provider === 'nowpayments' && paid_cents === 0),
      `a stray invoice at ${provider}`,
    )
  for (const { provider, payments } of invoices) {
    found.invoices[provider] = (found.invoices[provider] ?? 0) + 1
    found.payments += payments.length
    found.late += payments.filter(({ late }) => late).length
  }
  found.cents = [...paid.values()].reduce((sum, cents) => sum + cents, 0)
}
