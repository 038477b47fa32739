import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bookStatementLine } from '../../../src/features/wallet/book-statement-line.ts'
import { positionToken } from '../../../src/kernel/log-position.ts'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'
import { staffBrowser } from '../../support/console.ts'
import { operator } from '../../support/operator.ts'
import { testApp } from '../../support/test-app.ts'

// biome-ignore lint/suspicious/noExplicitAny: the second source reads the stored texts alone
type Data = any

type Sums = Map<string, number>

const add = (sums: Sums, name: string, micros: number): void => {
  sums.set(name, (sums.get(name) ?? 0) + micros)
}
const totalOf = (sums: Sums): number => [...sums.values()].reduce((sum, micros) => sum + micros, 0)

/**
 * The second source: sums of the stored events, micro-dollars, without the postings, the folds and the read tables of
 * the service.
 */
const sumsOf = async (log: Pick<EventLog, 'readAll'>) => {
  const revenue: Sums = new Map()
  const expenses: Sums = new Map()
  /** Payments less refunds and disputes, by provider. */
  const received: Sums = new Map()
  /** What left the providers as fees and payouts. */
  const spent: Sums = new Map()
  let elsewhere = 0
  const available = new Map<string, number>()
  const held: Sums = new Map()
  const debts: Sums = new Map()
  const blocked = new Set<string>()
  const disputes: Sums = new Map()
  for (let after = 0; ; ) {
    const events = await log.readAll(after, 1_000)
    for (const { type, stream, data: text } of events) {
      const data: Data = JSON.parse(text)
      const { amountMicros } = data
      if (stream.startsWith('ledger-')) available.set(stream, data.availableAfterMicros)
      switch (type) {
        case 'WalletCredited':
          add(debts, stream, data.debtChangeMicros)
          if (data.source === 'refund') add(revenue, data.family, -amountMicros)
          else if (data.source === 'deposit') add(received, data.gateway, amountMicros)
          else elsewhere += amountMicros
          break
        case 'WalletAdjusted':
          add(debts, stream, data.debtChangeMicros)
          if (data.gateway === null) add(expenses, data.reason, amountMicros)
          else add(received, data.gateway, amountMicros)
          if (data.reason === 'chargeback') add(disputes, data.reference.split(' ')[1], -amountMicros)
          break
        case 'WalletDebited':
          add(revenue, data.order.family, amountMicros)
          break
        case 'CustomerCharged':
          add(revenue, data.order.family, data.costMicros)
          break
        case 'CustomerRefunded':
          add(debts, stream, data.walletDebtChangeMicros)
          add(revenue, data.family, -data.costMicros)
          break
        case 'FundsHeld':
          add(held, stream, amountMicros)
          break
        case 'HoldCaptured':
          add(revenue, data.platform, amountMicros)
          add(held, stream, -amountMicros)
          break
        case 'HoldReleased':
          add(debts, stream, data.debtChangeMicros ?? 0)
          add(held, stream, -amountMicros)
          break
        case 'StatementLineBooked':
          add(expenses, `fees of ${data.gateway}`, data.feeMicros)
          add(spent, data.gateway, data.feeMicros + data.payoutMicros)
          break
        case 'AccountBlocked':
          blocked.add(stream)
          break
        case 'AccountUnblocked':
          blocked.delete(stream)
          break
      }
    }
    const last = events.at(-1)
    if (last === undefined) break
    after = last.position
  }
  const balances: Sums = new Map(received)
  for (const [gateway, micros] of spent) add(balances, gateway, -micros)
  return { revenue, expenses, received, elsewhere, available, held, debts, blocked, disputes, balances }
}

/** A figure of a page in micro-dollars. */
const microsOf = (text: string): number => {
  const [, minus, whole = '', fraction = ''] =
    /^([-\u2212]?)\$?([\d,]+)\.(\d{2,6})$/.exec(text) ?? assert.fail(`${text} is no amount`)
  const micros = Number(whole.replaceAll(',', '')) * 1_000_000 + Number(fraction.padEnd(6, '0'))
  return minus === '' ? micros : 0 - micros
}

/** The figures with a label: of cards, and of details. */
const figuresOf = (html: string): ReadonlyMap<string, string> =>
  new Map(
    [
      ...html.matchAll(/<h[23]>(?:<a[^>]*>)?([^<]+)(?:<\/a>)?<\/h[23]>\s*<p class="figure">([^<]+)<\/p>/g),
      ...html.matchAll(/<dt>([^<]+)<\/dt><dd>((?:\u2212)?\$[\d,.]+)(?: <a[^>]*>\w+<\/a>)?<\/dd>/g),
    ].map(([, label = '', figure = '']) => [label, figure]),
  )

/** The amounts of a table by the names of its rows. */
const rowsOf = (html: string, caption: string): ReadonlyMap<string, number> => {
  const table =
    html.split('<table').find((part) => part.includes(`<caption>${caption}`)) ?? assert.fail(caption)
  return new Map(
    [...table.matchAll(/<tr>(<t[hd].*?)<\/tr>/gs)].flatMap(([, row = '']) => {
      const cells = [...row.matchAll(/<t[hd][^>]*>(.*?)<\/t[hd]>/gs)].map(([, cell = '']) =>
        cell.replaceAll(/<[^>]+>/g, '').trim(),
      )
      const [name = '', amount = ''] = cells
      return /^[-\u2212]?\$?[\d,]+\.\d\d/.test(amount) ? [[name, microsOf(amount)] as const] : []
    }),
  )
}

const inCents = (micros: number): number => Math.trunc(micros / 10_000) * 10_000

test('every figure of finance and of the pages of staff equals the sum of the events', async (t) => {
  const app = await testApp(t, { own: true, settings: { FAREBOX_DEPOSIT_LOOK_MS: '500' } })
  const { core, client } = app
  const order = { product_id: 'residential-premium', quantity: 1 }
  const paid = async (cents: number, method = 'card') => {
    const account = await app.customer({ cents: 0 })
    const { deposit_id: id } = await app.openDeposit(account.key, { amount_cents: cents, method })
    await app.act(id, 'pay', cents)
    await app.untilBalance(account.key, cents)
    return { ...account, id: id as string }
  }

  const buyer = await paid(5_000)
  const bought = await client.post('/api/v1/orders', { ...order, quantity: 3 }, { key: buyer.key })
  assert.equal(bought.status, 201, bought.text)
  await app.run('orders', 'refund', '--order', bought.body.orderId, '--cents', '117', '--reference', 'slow')
  await paid(3_100, 'crypto')
  const returned = await paid(2_500)
  await app.act(returned.id, 'refund', 700)
  await app.untilBalance(returned.key, 1_800)
  const disputed = await paid(2_000)
  assert.equal((await client.post('/api/v1/orders', order, { key: disputed.key })).status, 201)
  await app.act(disputed.id, 'dispute')
  await app.untilBalance(disputed.key, 0)

  const gifted = await app.customer({ cents: 0, scopes: ['buy', 'scrape'] })
  const credit = (kind: string, cents: string) =>
    app.run(
      ...['wallet', 'credit', '--account', gifted.accountId, '--kind', kind],
      ...['--cents', cents, '--reference', kind],
    )
  await credit('payment', '12345')
  await credit('goodwill', '777')
  await credit('correction', '333')
  assert.equal(await app.balance(gifted.key), 13_455)
  const scraped = await client.post('/v1/scrape/tiktok/profile', { handle: 'nasa' }, { key: gifted.key })
  assert.equal(scraped.status, 200, scraped.text)
  const reseller = await app.newReseller(100_000)
  await reseller.pay('alice', 50_000)
  assert.equal((await reseller.order('alice', { ...order, quantity: 2 })).status, 201)
  await bookStatementLine(
    core.runner,
    {
      gateway: 'stripe',
      reference: 'po_1',
      category: 'payout',
      feeMicros: 250_000,
      payoutMicros: 20_000_000,
      happenedAt: new Date(core.clock()).toISOString(),
      file: null,
      proposalId: null,
    },
    operator,
  )
  // A refund that the provider does not answer holds its amount.
  await app.switches({ down: true })
  await app.run('deposits', 'refund', '--deposit', buyer.id, '--cents', '400', '--reason', 'outage')
  await app.caughtUp()

  const sums = await sumsOf(core.log)
  const { revenue, expenses, received, elsewhere, available, held, debts, balances } = sums
  const owed = totalOf(available) + totalOf(held)
  assert.ok(totalOf(held) === 4_000_000 && totalOf(debts) > 0 && sums.elsewhere > 123_450_000)
  const finance = await staffBrowser(app, ['finance'])
  const staff = await staffBrowser(app, ['finance', 'operator'])

  await t.test('on the home page', async () => {
    const { html } = await finance.open('/console/staff')
    const figures = [...figuresOf(html)].map(([label, text]) => [label, microsOf(text)])
    assert.deepEqual(figures, [
      ['Revenue in 30 days', totalOf(revenue)],
      ['Money received in 30 days', totalOf(received)],
      ['Owed to customers', owed],
      ['Balance at payment providers', totalOf(balances)],
    ])
    const [, less = ''] = /([^ >]+) after expenses of the books/.exec(html) ?? []
    assert.equal(microsOf(less), totalOf(revenue) - totalOf(expenses))
    const [, more = ''] = /([^ >]+) more was received elsewhere/.exec(html) ?? []
    assert.equal(microsOf(more), elsewhere)
    const families = [...rowsOf(html, 'Revenue by family')].map(([name, micros]) => [
      name.toLowerCase(),
      micros,
    ])
    assert.deepEqual(
      Object.fromEntries(families),
      Object.fromEntries([...revenue].map(([name, micros]) => [name, micros])),
    )
    const disputes = [...sums.disputes.values()].filter((micros) => micros > 0)
    assert.match(html, new RegExp(`${sums.blocked.size} account blocked after a dispute`))
    assert.match(html, new RegExp(`${disputes.length} dispute in the last 7 days`))
  })

  await t.test('on the page of money', async () => {
    const { html } = await finance.open('/console/finance/money')
    const figures = new Map([...figuresOf(html)].map(([label, text]) => [label, microsOf(text)]))
    const named = (account: string, each: Sums) =>
      [...each].map(([name, micros]) => [account.replace('*', name), micros] as const)
    const expected = new Map<string, number>([
      ['Revenue in 30 days, USD', totalOf(revenue)],
      ['Expenses in 30 days, USD', totalOf(expenses)],
      ['Money received in 30 days, USD', totalOf(received)],
      ['Received elsewhere in 30 days, USD', elsewhere],
      ['Balance at payment providers, USD', totalOf(balances)],
      ['Owed after refunds and disputes, USD', totalOf(debts)],
      ...named('revenue:orders:*', new Map([...revenue].filter(([name]) => name !== 'tiktok'))),
      ['revenue:scrapes:tiktok', revenue.get('tiktok') ?? 0],
      ...[...expenses].map(
        ([name, micros]) =>
          [
            name.startsWith('fees of ')
              ? `expenses:gateway-fees:${name.slice(8)}`
              : `expenses:adjustments:${name}`,
            micros,
          ] as const,
      ),
      ...named('assets:gateway:*', received),
      ['assets:gateway:manual', elsewhere],
    ])
    assert.deepEqual(Object.fromEntries([...figures].sort()), Object.fromEntries([...expected].sort()))
    assert.deepEqual(
      Object.fromEntries(rowsOf(html, 'Balance at each payment provider')),
      Object.fromEntries([...balances].map(([name, micros]) => [`assets:gateway:${name}`, micros])),
    )
    assert.deepEqual(
      Object.fromEntries(rowsOf(html, 'Accounts with debts')),
      Object.fromEntries(
        [...debts]
          .filter(([, micros]) => micros !== 0)
          .map(([stream, micros]) => [`assets:receivable:${stream.slice('ledger-'.length)}`, micros]),
      ),
    )
  })

  await t.test('on the pages of accounts, deposits, disputes and gateways', async () => {
    for (const { accountId } of [buyer, returned, disputed, gifted]) {
      const stream = `ledger-${accountId}`
      const figures = figuresOf((await staff.open(`/console/operator/accounts/${accountId}`)).html)
      assert.deepEqual(
        ['Balance', 'Held', 'Debt'].map((label) => microsOf(figures.get(label) ?? '')),
        [available, held, debts].map((sum) => inCents(sum.get(stream) ?? 0)),
      )
    }
    const { html: accounts } = await finance.get('/console/operator/accounts?format=csv')
    for (const { accountId, email } of [buyer, returned, disputed, gifted]) {
      const line = accounts.split('\r\n').find((each) => each.startsWith(`${email},`)) ?? ''
      assert.equal(microsOf(line.split(',')[3] ?? ''), available.get(`ledger-${accountId}`))
    }
    const { html: page } = await staff.open('/console/operator/gateways/sandbox-stripe')
    const [, balance = ''] = /<dt>Balance<\/dt><dd>(?:<a[^>]*>)?([^<]+)/.exec(page) ?? []
    assert.equal(microsOf(balance.replace(/ USD$/, '').trim()), balances.get('stripe'))
    const { html: reversals } = await finance.get('/console/operator/reversals?kind=chargeback&format=csv')
    const taken = reversals
      .trim()
      .split('\r\n')
      .slice(1)
      .map((line) => microsOf(line.split(',')[3] ?? ''))
    assert.deepEqual(taken, [...sums.disputes.values()])
    const { html: deposits } = await finance.get('/console/operator/deposits?format=csv')
    const credited = deposits
      .trim()
      .split('\r\n')
      .slice(1)
      .reduce((sum, line) => sum + microsOf(line.split(',')[3] ?? ''), 0)
    const payments = [5_000, 3_100, 2_500, 2_000].reduce((sum, cents) => sum + cents * 10_000, 0)
    assert.equal(credited, payments)
  })

  await t.test('in the trial balance', async () => {
    const { accounts } = await app.run('ledger', 'trial-balance', '--book', 'service', '--depth', '2')
    const of = (account: string) =>
      Number(accounts.find((each: Data) => each.account === account)?.balanceMicros ?? 0)
    assert.equal(of('liabilities:wallet'), 0 - totalOf(available))
    assert.equal(of('liabilities:holds'), 0 - totalOf(held))
    assert.equal(of('assets:receivable'), totalOf(debts))
    assert.equal(of('assets:gateway'), totalOf(balances) + elsewhere)
    assert.equal(of('assets:bank'), 20_000_000)
    assert.equal(of('expenses:adjustments'), 11_100_000)
  })

  await t.test('of a payout that is posted later, as of its time', async () => {
    const between = new Date(core.clock()).toISOString()
    const [earlier] = await core.log.readAll(0, 1)
    const { recordedAt } = JSON.parse(earlier?.metadata ?? '') as { recordedAt: string }
    await app.wait(2)
    const late = {
      gateway: 'stripe',
      reference: 'po_2',
      category: 'payout',
      feeMicros: 0,
      payoutMicros: 3_000_000,
    }
    const byService = { file: null, proposalId: null }
    await bookStatementLine(core.runner, { ...late, ...byService, happenedAt: recordedAt }, operator)
    await app.caughtUp()
    const bankAt = async (asOf: string) => {
      const args = ['ledger', 'account', 'assets:bank', '--as-of', asOf]
      return Number((await app.run(...args)).balanceMicros)
    }
    assert.equal(await bankAt(between), 23_000_000)
    assert.equal(await bankAt(recordedAt), 3_000_000)
    const { entries } = await app.run('ledger', 'manual-entries')
    const byHand = entries.find(({ reference }: Data) => reference === 'po_2')
    assert.deepEqual([byHand.at, byHand.recordedAt > between], [recordedAt, true])
    const explained = await app.cli.text('ledger', 'explain', byHand.position)
    assert.match(explained.out, new RegExp(`at ${recordedAt}, recorded at ${byHand.recordedAt} by `))
    const query = new URLSearchParams({ name: 'assets:bank', to: between })
    const { html } = await finance.open(`/console/finance/account?${query}`)
    assert.match(html, /<p class="figure">23\.00 Dr<\/p>/)
    assert.match(html, /3\.00 Dr<\/td><td[^>]*>23\.00 Dr</)
    assert.match(html, />20\.00 Dr<\/td><td[^>]*>20\.00 Dr</)
    const file = await finance.get(`/console/finance/statement.csv?${query}`)
    assert.match(file.html, /,3\.000000,0\.000000,23\.000000,/)
    const [line] = (await core.log.readAll((await core.log.head()) - 1, 1)).filter(
      ({ type }) => type === 'StatementLineBooked',
    )
    const trail = `/console/trail/${positionToken(line?.position ?? 0)}`
    assert.equal((await staff.get(`${trail}?${new URLSearchParams({ to: between })}`)).status, 200)
    const earlierStill = new Date(Date.parse(recordedAt) - 1).toISOString()
    assert.equal((await staff.get(`${trail}?${new URLSearchParams({ to: earlierStill })}`)).status, 404)
  })
})
