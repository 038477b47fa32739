import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { asCustomer } from '../../support/app-actions.ts'
import type { Called } from '../../support/http.ts'
import type { TestApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

export const methods = ['card', 'crypto'] as const
type Method = (typeof methods)[number]

type Page = { readonly depositId: string; readonly chargeCents: number; readonly epoch: number }

type ShopOrder = {
  readonly key: string
  readonly customer: string
  readonly body: { readonly product_id: string; readonly quantity: number }
  /** Of the last request. */
  method: Method
  orderId: string | null
  /** It was placed, canceled or failed, as far as the shop knows. */
  isOver: boolean
  /** Every page that the shop was given, the last one last. */
  readonly pages: Page[]
  /** The customer's epoch when the order began to wait for the wallet; null: it does not. */
  waitsSince: number | null
}

/**
 * A reseller's shop with books of its own: what its customers paid, what it credited and what was disputed. It knows the
 * service by the API alone.
 */
export const openShop = async (app: TestApp) => {
  const reseller = await app.resellerWithGateways('Shop', 'btcpay')
  const { key, accountId } = reseller
  await app.run('reseller', 'set', '--account', accountId, '--markup', '1.30')
  const quotePath = '/api/v1/products/residential-premium/price?quantity=1'
  await until(async () => (await reseller.client.get(quotePath)).body.marginCents > 0)

  const orders: ShopOrder[] = []
  /** Cents that each customer has paid or was credited, less disputes. */
  const money = new Map<string, number>()
  /** Counts what can take a customer's credit away: disputes, and orders that were placed. */
  const epochs = new Map<string, number>()
  const paidByPage = new Map<string, number>()
  let walletCents = 0
  const add = (book: Map<string, number>, name: string, amount: number) =>
    book.set(name, (book.get(name) ?? 0) + amount)
  const epochOf = (customer: string) => epochs.get(customer) ?? 0

  const fill = async (cents: number): Promise<void> => {
    await app.credit(accountId, cents)
    walletCents += cents
  }
  const read = (order: ShopOrder) => app.readOrder(key, order.orderId!)

  const noted = (order: ShopOrder, { status, body, text }: Called): void => {
    const { customer } = order
    if (status === 402) {
      order.orderId ??= body.orderId ?? null
      if (body.payUrl === undefined) return
      const { shortfallCents, chargeCents, owedCents = 0, depositId } = body
      assert.ok(chargeCents >= shortfallCents && shortfallCents >= owedCents, text)
      order.pages.push({ depositId, chargeCents, epoch: epochOf(customer) })
      return
    }
    assert.ok(status < 300, text)
    order.orderId = body.orderId
    order.isOver = true
    if (body.status === 'completed') add(epochs, customer, 1)
  }

  const send = async (order: ShopOrder, method = order.method): Promise<Called> => {
    order.method = method
    const answer = await reseller.order(order.customer, { ...order.body, method }, order.key)
    noted(order, answer)
    return answer
  }

  const open = async (customer: string, quantity: number, method: Method): Promise<ShopOrder> => {
    const body = { product_id: 'residential-premium', quantity }
    const order: ShopOrder = {
      key: randomUUID(),
      customer,
      body,
      method,
      orderId: null,
      isOver: false,
      pages: [],
      waitsSince: null,
    }
    orders.push(order)
    await send(order)
    return order
  }

  /** Lets the last page expire at its provider. */
  const expire = async (order: ShopOrder): Promise<void> => {
    const page = order.pages.at(-1)
    if (page !== undefined) await app.act(page.depositId, 'expire')
  }

  /** Pays a page; whether its provider took the money. Waits until the money is credited. */
  const payPage = async (order: ShopOrder, page: Page): Promise<boolean> => {
    const { depositId, chargeCents } = page
    const { status } = await app.act(depositId, 'pay', chargeCents)
    if (status !== 200) return false
    add(money, order.customer, chargeCents)
    add(paidByPage, depositId, chargeCents)
    await until(
      async () => (await app.readDeposit(key, depositId)).credited_cents >= (paidByPage.get(depositId) ?? 0),
    )
    return true
  }

  /** Pays the amount of the last page. The order is placed, or says why it is not. */
  const pay = async (order: ShopOrder): Promise<void> => {
    const page = order.pages.at(-1)
    if (page === undefined) return
    const isPayable = (await app.readDeposit(key, page.depositId)).pay_url !== null
    const isSettled = epochOf(order.customer) === page.epoch
    const waited = (await read(order)).waitsFor === 'payment'
    if (!(await payPage(order, page))) return
    const after = await read(order)
    const { status, waitsFor, cancelReason, failureReason } = after
    order.isOver = true
    if (status === 'completed' && waited) add(epochs, order.customer, 1)
    const isGranted = status === 'completed' || waitsFor === 'wallet'
    if (isPayable && isSettled && waited) assert.ok(isGranted, JSON.stringify(after))
    assert.ok(
      isGranted || (await isRefused(order)),
      `paid, and neither placed nor refused: ${JSON.stringify(after)} ${cancelReason} ${failureReason}`,
    )
    if (waitsFor === 'wallet') {
      assert.ok(after.walletShortfallCents > 0, JSON.stringify(after))
      order.waitsSince ??= epochOf(order.customer)
    }
  }

  /** The order ends with a reason, within seconds. */
  const isRefused = (order: ShopOrder): Promise<boolean> =>
    until(async () => {
      const { status, cancelReason, failureReason, waitsFor, waitsUntil } = await read(order)
      if (status === 'completed') return true
      if (waitsFor === 'wallet') return waitsUntil !== null
      return cancelReason !== null || failureReason !== null
    })

  /** Pays pages at once, beside other work. Afterwards the order is placed, or says why it is not. */
  const race = async (
    order: ShopOrder,
    pages: readonly Page[],
    beside: () => Promise<unknown> = async () => undefined,
  ): Promise<void> => {
    const [taken] = await Promise.all([Promise.all(pages.map((page) => payPage(order, page))), beside()])
    order.isOver = true
    add(epochs, order.customer, 1)
    if (taken.includes(true)) assert.ok(await isRefused(order))
  }

  const cancel = (order: ShopOrder) =>
    reseller.client.post(`/api/v1/orders/${order.orderId}/cancel`, undefined, {
      headers: asCustomer(order.customer),
    })

  const dispute = async (customer: string, cents: number): Promise<void> => {
    const of = ['--account', accountId, '--customer', customer]
    const why = ['--reason', 'chargeback', '--gateway', 'stripe', '--reference', randomUUID()]
    await app.run('customers', 'adjust', ...of, '--cents', String(-cents), ...why)
    add(money, customer, -cents)
    add(epochs, customer, 1)
  }

  const cash = async (customer: string, cents: number): Promise<void> => {
    await reseller.pay(customer, cents)
    add(money, customer, cents)
  }

  /** Leaves so many cents in the wallet. */
  const drain = async (leftCents: number): Promise<void> => {
    const cents = leftCents - (await app.balance(key))
    if (cents >= 0) return
    const adjust = ['wallet', 'adjust', '--account', accountId, '--cents', String(cents)]
    await app.run(...adjust, '--reference', randomUUID())
    walletCents += cents
  }

  /** Ends every order, and compares the books of the shop with those of the service. */
  const close = async (): Promise<readonly { readonly status: string }[]> => {
    await fill(10_000_000)
    for (const order of orders.filter(({ orderId }) => orderId !== null)) {
      const isOwed = order.waitsSince !== null && order.waitsSince === epochOf(order.customer)
      if (isOwed && (await read(order)).waitsFor === 'wallet') {
        await app.untilOrder(key, order.orderId!, 'completed')
        add(epochs, order.customer, 1)
      }
      if ((await read(order)).status !== 'awaiting_payment') continue
      const { status, body, text } = await cancel(order)
      assert.ok(status === 200 || body.code === 'order_not_waiting', text)
    }
    const ends = await Promise.all(orders.filter(({ orderId }) => orderId !== null).map(read))
    const spent = new Map<string, number>()
    let costCents = 0
    for (const end of ends) {
      const { status, cancelReason, failureReason, customer, amountCents, yourCostCents } = end
      const reason = cancelReason ?? failureReason
      assert.equal(status === 'completed', reason === null, JSON.stringify(end))
      if (status !== 'completed') continue
      add(spent, customer, amountCents)
      costCents += yourCostCents
    }
    for (const customer of new Set(orders.map((order) => order.customer))) {
      const { availableMicros, receivableMicros } = await app.customerWallet(accountId, customer)
      const left = (money.get(customer) ?? 0) - (spent.get(customer) ?? 0)
      assert.equal((availableMicros - receivableMicros) / 10_000, left, `the credit of ${customer}`)
    }
    assert.equal(await app.balance(key), walletCents - costCents, 'the wallet of the shop')
    const { totals } = (await reseller.client.get('/api/v1/reseller/statement')).body
    const revenueCents = [...spent.values()].reduce((total, cents) => total + cents, 0)
    assert.deepEqual([totals.costCents, totals.revenueCents], [costCents, revenueCents], 'the statement')
    // No invoice of an order that ended takes more money here.
    for (const { depositId } of orders.flatMap(({ pages }) => pages))
      await until(async () => (await app.readDeposit(key, depositId)).pay_url === null)
    return ends
  }

  return { orders, open, send, pay, expire, race, cancel, dispute, cash, fill, drain, close }
}
export type SmallShop = Awaited<ReturnType<typeof openShop>>
