import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc, { runs } from '../../support/fast-check.ts'
import type { Called } from '../../support/http.ts'
import { operator } from '../../support/operator.ts'
import { type TestApp, testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

type Action =
  | { readonly kind: 'credit'; readonly name: string; readonly cents: number }
  | { readonly kind: 'order'; readonly name: string | null; readonly quantity: number; readonly key: number }
  | { readonly kind: 'refund'; readonly at: number; readonly share: number }
  | { readonly kind: 'label'; readonly at: number; readonly label: string; readonly foreign: boolean }
  | { readonly kind: 'read'; readonly at: number; readonly foreign: boolean }
  | {
      readonly kind: 'deposit'
      readonly name: string
      readonly rail: 'card' | 'crypto'
      readonly cents: number
      readonly key: number
      /** How much arrives, as a share of it; null: the page is left unpaid. */
      readonly share: number | null
    }
  /** An order on a pay page that is paid at once. */
  | { readonly kind: 'checkout'; readonly name: string; readonly quantity: number; readonly key: number }

/** The same few names for the customers of all. */
const names = ['ann', 'bob', 'customer-1'] as const
const name = fc.constantFrom(...names)
const at = fc.nat({ max: 50 })
const action: fc.Arbitrary<Action> = fc.oneof(
  fc.record({ kind: fc.constant('credit' as const), name, cents: fc.integer({ min: 1, max: 20_000 }) }),
  fc.record({
    kind: fc.constant('order' as const),
    name: fc.option(name, { freq: 6 }),
    quantity: fc.integer({ min: 1, max: 5 }),
    key: fc.integer({ min: 0, max: 10_000 }),
  }),
  fc.record({ kind: fc.constant('refund' as const), at, share: fc.constantFrom(1, 2, 3) }),
  fc.record({
    kind: fc.constant('label' as const),
    at,
    label: fc.constantFrom('a', 'b', ''),
    foreign: fc.boolean(),
  }),
  fc.record({ kind: fc.constant('read' as const), at, foreign: fc.boolean() }),
  fc.record({
    kind: fc.constant('deposit' as const),
    name,
    rail: fc.constantFrom('card' as const, 'crypto'),
    cents: fc.integer({ min: 1_000, max: 9_000 }),
    key: fc.nat({ max: 400 }),
    share: fc.constantFrom(null, 0.5, 1, 1, 2),
  }),
  fc.record({
    kind: fc.constant('checkout' as const),
    name,
    quantity: fc.integer({ min: 1, max: 5 }),
    key: fc.integer({ min: 20_000, max: 30_000 }),
  }),
)

type Sold = {
  readonly orderId: string
  readonly name: string
  readonly quantity: number
  readonly amountCents: number
  readonly costCents: number
  back: { amountCents: number; costCents: number }
}

/** One reseller, and the state that follows from its own actions. */
type Party = {
  readonly shop: Awaited<ReturnType<TestApp['newReseller']>>
  readonly unit: { readonly amountCents: number; readonly costCents: number }
  walletCents: number
  readonly credit: Map<string, number>
  readonly ids: Map<string, string>
  readonly labels: Map<string, string | null>
  readonly sold: Sold[]
  readonly keys: Set<number>
  /** Its requests under each customer and key, and the answers. */
  readonly deposits: Map<string, { readonly id: string; readonly cents: number; paidCents: number }>
  /** Every id that it ever received. */
  readonly received: Set<string>
}

const idPattern = /(?:ord|dep|pln|prx|cus|txn|ref)_[0-9a-z]{8,}/g
const api = '/api/v1/reseller'

test("resellers with customers of the same names never see, charge or credit each other's", async (t) => {
  const app = await testApp(t)
  const open = async (
    discountBp: number,
    markupMillionths: number,
    crypto: 'btcpay' | 'nowpayments',
  ): Promise<Party> => {
    const shop = await app.newReseller(50_000_000)
    const gateway = ['reseller', 'gateway', '--account', shop.accountId, '--sandbox', '--rail']
    await app.run(...gateway, 'card', '--provider', 'stripe')
    await app.run(...gateway, 'crypto', '--provider', crypto)
    await app.resellers.change(shop.accountId, { discountBp, markupMillionths }, operator)
    const unit = await until(async () => {
      const { body } = await shop.client.get('/api/v1/products/residential-basic/price?quantity=1')
      return body.marginCents === 0
        ? null
        : { amountCents: body.amountCents as number, costCents: body.yourCostCents as number }
    })
    const fresh = { credit: new Map(), ids: new Map(), labels: new Map(), received: new Set<string>() }
    return {
      shop,
      unit,
      walletCents: 50_000_000,
      ...fresh,
      sold: [],
      keys: new Set<number>(),
      deposits: new Map(),
    }
  }
  const parties = await Promise.all([
    open(500, 1_200_000, 'btcpay'),
    open(1_000, 1_300_000, 'nowpayments'),
    open(2_500, 2_000_000, 'btcpay'),
  ])
  /** The payer's action on the invoice of a deposit, until it is credited. */
  const pay = async ({ key }: Party['shop'], depositId: string, cents: number) => {
    assert.equal((await app.act(depositId, 'pay', cents)).status, 200)
    return await app.untilDeposit(key, depositId, { credited_cents: cents })
  }
  const hear = (me: Party, { status, text }: Called): void => {
    if (status < 300) for (const [id] of text.matchAll(idPattern)) me.received.add(id)
  }
  /** A foreign thing reads as one that never was: the same answer but for the id and the request's own. */
  const asAbsent = async (id: string, send: (id: string) => Promise<Called>): Promise<void> => {
    const none = `${id.slice(0, 4)}${'0'.repeat(32)}`
    const [foreign, absent] = [await send(id), await send(none)]
    const plain = ({ body: { requestId: _, ...body } }: Called, shown: string) =>
      JSON.stringify(body).replaceAll(shown, '')
    assert.deepEqual([foreign.status, foreign.body.code], [404, 'not_found'])
    assert.equal(plain(foreign, id), plain(absent, none))
  }

  const act = async (me: Party, others: readonly Party[], done: Action): Promise<void> => {
    const { shop } = me
    const { client } = shop
    const creditOf = (who: string) => me.credit.get(who) ?? 0
    switch (done.kind) {
      case 'credit': {
        me.ids.set(done.name, await shop.pay(done.name, done.cents))
        me.credit.set(done.name, creditOf(done.name) + done.cents)
        return
      }
      case 'order': {
        if (me.keys.has(done.key)) return
        const { name: who, quantity } = done
        const answer = await shop.order(
          who,
          { product_id: 'residential-basic', quantity },
          // The same keys for all of them: a key is the reseller's own.
          `key-${done.key}`,
        )
        const quoted = (await client.get(`/api/v1/products/residential-basic/price?quantity=${quantity}`))
          .body
        const { amountCents, yourCostCents: costCents } = quoted
        if (who !== null && creditOf(who) < amountCents) {
          assert.deepEqual([answer.status, answer.body.code], [402, 'customer_credit_insufficient'])
          assert.equal(answer.body.shortfallCents, amountCents - creditOf(who))
          return
        }
        assert.equal(answer.status, 201, JSON.stringify(answer.body))
        me.keys.add(done.key)
        me.walletCents -= costCents
        assert.equal(answer.body.balanceCents, me.walletCents)
        hear(me, answer as Called)
        if (who === null) return
        me.credit.set(who, creditOf(who) - amountCents)
        const { orderId } = answer.body
        const back = { amountCents: 0, costCents: 0 }
        me.sold.push({ orderId, name: who, quantity, amountCents, costCents, back })
        return
      }
      case 'deposit': {
        const { name: who, rail: method, cents, key, share } = done
        // The same keys for all of them, and for all of their customers.
        const under = `${who} deposit-${key}`
        if (me.deposits.has(under)) return
        const headers = { 'Idempotency-Key': `deposit-${key}`, 'X-Reseller-Customer-Id': who }
        const answer = await client.post('/api/v1/deposits', { amount_cents: cents, method }, { headers })
        assert.equal(answer.status, 200, answer.text)
        hear(me, answer)
        const deposit = { id: answer.body.deposit_id, cents, paidCents: 0 }
        me.deposits.set(under, deposit)
        if (share === null) return
        deposit.paidCents = Math.floor(cents * share)
        await pay(shop, deposit.id, deposit.paidCents)
        me.credit.set(who, creditOf(who) + deposit.paidCents)
        return
      }
      case 'checkout': {
        const { name: who, quantity, key } = done
        if (me.keys.has(key)) return
        const json = { product_id: 'residential-basic', quantity, method: 'card' }
        const quoted = (await client.get(`/api/v1/products/residential-basic/price?quantity=${quantity}`))
          .body
        const { amountCents, yourCostCents: costCents } = quoted
        me.keys.add(key)
        const answer = await shop.order(who, json, `key-${key}`)
        hear(me, answer as Called)
        let { orderId } = answer.body
        if (creditOf(who) < amountCents) {
          assert.deepEqual([answer.status, answer.body.code], [402, 'customer_credit_insufficient'])
          const { depositId, chargeCents } = answer.body
          assert.equal(answer.body.shortfallCents, amountCents - creditOf(who))
          const deposit = await pay(shop, depositId, chargeCents)
          orderId = deposit.order_id
          me.deposits.set(`${who} order-${key}`, {
            id: depositId,
            cents: chargeCents,
            paidCents: chargeCents,
          })
          me.credit.set(who, creditOf(who) + chargeCents)
          const order = await client.get(`/api/v1/orders/${orderId}`)
          hear(me, order)
          assert.equal(order.body.status, 'completed', order.text)
        } else assert.equal(answer.status, 201, JSON.stringify(answer.body))
        me.walletCents -= costCents
        me.credit.set(who, creditOf(who) - amountCents)
        const back = { amountCents: 0, costCents: 0 }
        me.sold.push({ orderId, name: who, quantity, amountCents, costCents, back })
        return
      }
      case 'refund': {
        const sale = me.sold[done.at % Math.max(1, me.sold.length)]
        const left = sale ? sale.amountCents - sale.back.amountCents : 0
        if (!sale || left === 0) return
        const { order } = await app.refund(
          sale.orderId,
          done.share === 1 ? { kind: 'whole' } : { kind: 'cents', cents: Math.ceil(left / done.share) },
        )
        const refund = order.refunds.at(-1)!
        sale.back.amountCents += refund.amountCents
        sale.back.costCents += refund.costCents ?? 0
        me.credit.set(sale.name, creditOf(sale.name) + refund.amountCents)
        me.walletCents += refund.costCents ?? 0
        return
      }
      case 'label':
      case 'read': {
        const owner = done.foreign ? others[done.at % others.length]! : me
        const [who, id] = [...owner.ids][done.at % Math.max(1, owner.ids.size)] ?? []
        if (who === undefined || id === undefined) return
        const send = (customerId: string) =>
          done.kind === 'read'
            ? client.get(`${api}/customers/${customerId}`)
            : client.call('PATCH', `${api}/customers/${customerId}`, { json: { label: done.label } })
        if (done.foreign) {
          await asAbsent(id, send)
          const order = owner.sold[done.at % Math.max(1, owner.sold.length)]
          if (order) await asAbsent(order.orderId, (orderId) => client.get(`/api/v1/orders/${orderId}`))
          const [deposit] = [...owner.deposits.values()].slice(done.at % Math.max(1, owner.deposits.size))
          if (deposit) await asAbsent(deposit.id, (depositId) => client.get(`/api/v1/deposits/${depositId}`))
          return
        }
        const answer = await send(id)
        hear(me, answer)
        if (done.kind === 'label') me.labels.set(who, done.label || null)
        assert.deepEqual([answer.status, answer.body.customer], [200, who])
        return
      }
      default:
        return done satisfies never
    }
  }

  /** A reseller can read only the results of its own actions. */
  const check = async (me: Party): Promise<void> => {
    const { client } = me.shop
    const [wallet, customers, byDay, byCustomer, statement, deposits] = await Promise.all([
      client.get('/api/v1/wallet'),
      client.get(`${api}/customers?limit=100`),
      client.get(`${api}/margins`),
      client.get(`${api}/margins?group_by=customer`),
      client.get(`${api}/statement`),
      client.get('/api/v1/deposits?limit=100'),
    ])
    for (const answer of [customers, byCustomer, statement, deposits]) hear(me, answer)
    assert.equal(deposits.body.total, me.deposits.size)
    const byId = new Map([...me.deposits].map(([under, deposit]) => [deposit.id, { under, ...deposit }]))
    for (const { deposit_id, customer, amount_cents, credited_cents } of deposits.body.deposits) {
      const mine = byId.get(deposit_id)
      assert.ok(mine, `${deposit_id} is nothing of ${me.shop.accountId}`)
      assert.equal(customer, mine.under.slice(0, mine.under.lastIndexOf(' ')))
      assert.deepEqual([amount_cents, credited_cents], [mine.cents, mine.paidCents])
    }
    assert.equal(wallet.body.balanceCents, me.walletCents)
    for (const { customer, customerId, creditCents, label } of customers.body.customers) {
      me.ids.set(customer, customerId)
      assert.equal(creditCents, me.credit.get(customer) ?? 0, `${customer} of ${me.shop.accountId}`)
      assert.equal(label, me.labels.get(customer) ?? null)
    }
    const sums = (sales: readonly Sold[]) => {
      const revenueCents = sales.reduce((sum, sale) => sum + sale.amountCents - sale.back.amountCents, 0)
      const costCents = sales.reduce((sum, sale) => sum + sale.costCents - sale.back.costCents, 0)
      return { orders: sales.length, revenueCents, costCents, marginCents: revenueCents - costCents }
    }
    assert.deepEqual(statement.body.totals, sums(me.sold))
    const revenue = byDay.body.margins.reduce(
      (sum: number, row: { revenueCents: number }) => sum + row.revenueCents,
      0,
    )
    assert.equal(revenue, sums(me.sold).revenueCents)
    for (const { key, customer, currency: _, ...figures } of byCustomer.body.margins) {
      const who = [...me.ids].find(([, id]) => id === key)?.[0]
      assert.equal(customer, who)
      assert.deepEqual(figures, sums(me.sold.filter((sale) => sale.name === who)))
    }
    const own = new Set(me.sold.map(({ orderId }) => orderId))
    for (const line of statement.body.lines) assert.ok(own.has(line.orderId))
  }

  const histories = runs(20, 300)
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(action, action, action), { minLength: 9, maxLength: 12 }),
      async (steps) => {
        for (const step of steps)
          await Promise.all(
            parties.map((me, n) =>
              act(
                me,
                parties.filter((other) => other !== me),
                step[n]!,
              ),
            ),
          )
        for (const me of parties) await check(me)
        for (const [n, me] of parties.entries())
          for (const other of parties.slice(n + 1))
            assert.deepEqual(
              [...me.received].filter((id) => other.received.has(id)),
              [],
              'two received the same id',
            )
      },
    ),
    { numRuns: histories },
  )
  for (const me of parties) {
    assert.ok(me.sold.length > histories / 4, `${me.sold.length} sales`)
    assert.equal(me.ids.size, names.length)
    for (const kind of ['ord', 'cus', 'dep'])
      assert.ok(
        [...me.received].some((id) => id.startsWith(kind)),
        `nothing was seen of ${kind}`,
      )
  }
  t.diagnostic(
    `${parties.map(({ sold }) => sold.length).join(', ')} sales, ${parties.map(({ received }) => received.size).join(', ')} ids`,
  )
})
