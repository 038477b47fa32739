import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { asCustomer } from '../../support/app-actions.ts'
import { staffBrowser } from '../../support/console.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

const finance = '/finance/v1'

test('after a chargeback', async (t) => {
  const app = await testApp(t, { own: 'file', with: ['financeToken'] })
  const { client, financeToken: key } = app
  // biome-ignore lint/suspicious/noExplicitAny: an answer that the client has checked
  const ask = async (path: string): Promise<any> => {
    const answer = await client.get(`${finance}/${path}`, { key })
    assert.equal(answer.status, 200, answer.text)
    return answer.body
  }
  const ledger = async (...args: readonly string[]) => {
    const ran = await app.cli.text('ledger', ...args)
    assert.equal(ran.code, 0, ran.err)
    return ran.out
  }
  const buyer = await app.customer({ cents: 0 })
  const deposit = await app.openDeposit(buyer.key, { amount_cents: 1000 })
  await app.act(deposit.deposit_id, 'pay', 1000)
  await app.untilDeposit(buyer.key, deposit.deposit_id, { status: 'paid' })
  await app.act(deposit.deposit_id, 'dispute')
  await app.untilBalance(buyer.key, 0)

  await t.test(
    'a trial balance has the same totals for any grouping, and its lines add up to them',
    async () => {
      const sides = ['openingMicros', 'debitMicros', 'creditMicros', 'balanceMicros'] as const
      const whole = await ask('trial-balance?book=service')
      const [totals] = whole.totals
      assert.equal(totals.debitMicros, totals.creditMicros)
      assert.deepEqual([totals.openingMicros, totals.balanceMicros], ['0', '0'])
      const gateway = whole.accounts.find(
        ({ account }: { account: string }) => account === 'assets:gateway:stripe',
      )
      assert.deepEqual(
        sides.map((side) => gateway[side]),
        ['0', '10000000', '25000000', '-15000000'],
        'the payment, less the dispute and its fee',
      )
      for (const cut of ['', '&depth=1', '&depth=2', '&depth=10', '&from=1', '&from=1&depth=1', '&limit=2']) {
        const { totals: same, total } = await ask(`trial-balance?book=service${cut}`)
        assert.deepEqual(same, whole.totals, cut)
        const lines = []
        while (lines.length < total)
          lines.push(...(await ask(`trial-balance?book=service${cut}&offset=${lines.length}`)).accounts)
        for (const side of sides)
          assert.equal(String(lines.reduce((sum, line) => sum + BigInt(line[side]), 0n)), totals[side], cut)
      }
      for (const options of [[], ['--depth', '1'], ['--from', '1', '--depth', '1']]) {
        const printed = JSON.parse(await ledger('trial-balance', '--book', 'service', ...options, '--json'))
        assert.deepEqual(printed.totals, [totals], `the command line, ${options}`)
      }
    },
  )

  await t.test(
    'an answer has all rows, or says that it has not; no limit is lowered without a word',
    async () => {
      for (const [path, rows] of [
        ['trial-balance', 'accounts'],
        ['accounts/liabilities', 'accounts'],
        [`accounts/${buyer.accountId}/statement`, 'lines'],
        ['manual-entries', 'entries'],
        ['deferred-revenue', 'products'],
        ['reversals', 'reversals'],
      ] as const) {
        const whole = await ask(path)
        assert.deepEqual([whole.complete, whole[rows].length, whole.offset], [true, whole.total, 0], path)
        assert.ok(whole.limit > 10_000, path)
        const part = await ask(`${path}?limit=1`)
        assert.deepEqual(
          [part.complete, part[rows].length],
          [whole.total <= 1, Math.min(whole.total, 1)],
          path,
        )
        assert.equal((await ask(`${path}?offset=1`)).complete, whole.total === 0, path)
        assert.equal((await ask(`${path}?limit=5000`)).limit, 5000, path)
        const refused = await client.get(`${finance}/${path}?limit=100001`, { key })
        assert.deepEqual([refused.status, refused.body.code], [400, 'invalid_limit'], path)
      }
    },
  )

  await t.test('no money has moved at any instant before the first event', async () => {
    for (const early of ['1969-12-31', '0001-01-01', '0000-01-01', '0000-01-01T00:00:00%2B14:00']) {
      const { accounts, position } = await ask(`trial-balance?book=service&as_of=${early}`)
      assert.deepEqual([accounts, position], [[], 'pos_0_0'], early)
      const since = await ask(`trial-balance?book=service&from=${early}`)
      assert.deepEqual(since, await ask('trial-balance?book=service&from=1'), `from ${early}`)
    }
  })

  await t.test('the command line prints the HTTP response without the page', async () => {
    const compared = async (path: string, ...command: readonly string[]) => {
      const { position } = await ask('trial-balance')
      const query = `${path.includes('?') ? '&' : '?'}to=${position}`
      const { complete, total: _, limit: _l, offset: _o, ...answered } = await ask(`${path}${query}`)
      const printed = JSON.parse(await ledger(...command, '--to', position, '--json'))
      assert.deepEqual([printed, complete], [answered, true], path)
    }
    await compared('trial-balance', 'trial-balance')
    await compared('trial-balance?book=service&depth=2', 'trial-balance', '--book', 'service', '--depth', '2')
    await compared('accounts/liabilities', 'account', 'liabilities')
    await compared(`accounts/${buyer.accountId}/statement`, 'statement', buyer.accountId)
  })

  await t.test('what was sold and not delivered is there at any moment, by product', async () => {
    const account = await app.customer({ cents: 10_000 })
    const before = await ask('deferred-revenue')
    const order = { product_id: 'residential-premium', quantity: 5 }
    const { body } = await client.post('/api/v1/orders', order, { key: account.key })
    const productIn = (answer: { products: readonly Record<string, string>[] }) =>
      answer.products.find(({ productId }) => productId === order.product_id)
    const deferred = await ask('deferred-revenue')
    const earlier = BigInt(productIn(before)?.deferredMicros ?? 0)
    assert.equal(
      BigInt(productIn(deferred)?.deferredMicros ?? 0) - earlier,
      BigInt(body.amountCents) * 10_000n,
    )
    assert.deepEqual((await ask(`deferred-revenue?as_of=${before.position}`)).products, before.products)
    const printed = JSON.parse(await ledger('deferred-revenue', '--as-of', deferred.position, '--json'))
    assert.deepEqual(printed.products, deferred.products)
    assert.match(await ledger('deferred-revenue', '--format', 'csv'), /^residential-premium,\d+,\d+\.\d{6},/m)
    const page = await (await staffBrowser(app, ['finance'])).open('/console/finance/deferred-revenue')
    assert.match(page.html, /residential-premium/)
  })

  await t.test('entries by hand say who made them, why, and from which file', async () => {
    const other = await app.customer({ cents: 0 })
    const statement = join(app.env.FAREBOX_DATA ?? '', 'payouts.csv')
    const heading =
      'payout_id,effective_at_utc,currency,balance_transaction_id,gross,fee,net,reporting_category'
    await writeFile(statement, `${heading}\npo_1,2026-11-25,usd,txn_hand,-2.00,0.25,-2.25,payout\n`)
    const hand = await app.cli.text(
      'wallet',
      'credit',
      '--account',
      other.accountId,
      '--cents',
      '100',
      '--kind',
      'goodwill',
      '--reference',
      'sorry',
    )
    assert.equal(hand.code, 0, hand.err)
    const payer = await app.customer({ cents: 1000 })
    const { body: order } = await client.post(
      '/api/v1/orders',
      { product_id: 'residential-premium', quantity: 1 },
      { key: payer.key },
    )
    const refund = await app.cli.text('orders', 'refund', '--order', order.orderId, '--reference', 't9')
    assert.equal(refund.code, 0, refund.err)
    await app.cli.text('finance', 'reconcile', '--gateway', 'stripe', '--file', statement, '--post')
    await until(async () =>
      (await ask('manual-entries')).entries.some(({ file }: { file: string }) => file !== null),
    )
    const { entries } = await ask('manual-entries')
    const by = entries[0].actor
    assert.match(by, /^operator:/)
    // The dispute of the provider is not by hand.
    assert.deepEqual(
      entries
        .filter(({ kind }: Record<string, string>) => ['goodwill', 'payout'].includes(kind ?? ''))
        .map(({ kind, actor, reference, file, fileSha256 }: Record<string, string>) => [
          kind,
          actor,
          reference,
          file,
          fileSha256,
        ]),
      [
        ['goodwill', by, 'sorry', null, null],
        [
          'payout',
          by,
          'txn_hand',
          'payouts.csv',
          createHash('sha256')
            .update(await readFile(statement))
            .digest('hex'),
        ],
      ],
    )
    const refunded = entries.find(({ kind }: Record<string, string>) => kind === 'order_refund')
    assert.deepEqual([refunded.reason, refunded.orderId, refunded.proposedBy], ['t9', order.orderId, null])
    assert.equal(refunded.recordedAt, refunded.at)
    const csv = await ledger('manual-entries', '--format', 'csv')
    assert.match(
      csv,
      /,payout,operator:[^,]+,txn_hand,payouts\.csv,[0-9a-f]{64},,,,service,assets:bank,2\.000000,0\.000000/,
    )
    assert.match(csv, /,order_refund,operator:[^,]+,t9,,,,,,service,/)
    assert.match(await ledger('manual-entries'), /goodwill +operator:\S+ +- +sorry/)
    const page = await (await staffBrowser(app, ['finance'])).open('/console/finance/manual-entries')
    assert.match(page.html, /payouts\.csv/)
    assert.match(page.html, /t9/)
  })

  await t.test('a table of balances omits zero balances, and a table of movements does not', async () => {
    const wallet = `liabilities:wallet:${buyer.accountId}`
    assert.doesNotMatch(await ledger('trial-balance'), new RegExp(wallet))
    assert.match(
      await ledger('trial-balance', '--from', '1'),
      new RegExp(`${wallet} +0\\.00 +10\\.00 +10\\.00 +0\\.00`),
    )
    assert.match(await ledger('trial-balance', '--help'), /accounts at zero/)
  })

  await t.test(
    'it names its deposit: in the wallet, in a statement, in an explanation, in an export',
    async () => {
      const { transactions } = (await client.get('/api/v1/wallet/transactions', { key: buyer.key })).body
      assert.deepEqual(
        transactions.map(({ type, depositId }: Record<string, string>) => [type, depositId]),
        [
          ['chargeback', deposit.deposit_id],
          ['deposit', deposit.deposit_id],
        ],
      )
      const { lines } = await ask(`accounts/${buyer.accountId}/statement`)
      assert.deepEqual(
        lines.map(({ type, depositId }: Record<string, string>) => [type, depositId]),
        [
          ['WalletCredited', deposit.deposit_id],
          ['WalletAdjusted', deposit.deposit_id],
        ],
      )
      const explained = await ledger('explain', buyer.accountId)
      assert.match(explained, /in the book service is at 0\.00 as of position/)
      assert.match(explained, new RegExp(`reason chargeback.* depositId ${deposit.deposit_id}`))
      assert.match(
        await ledger('statement', buyer.accountId),
        new RegExp(`dispute ${deposit.deposit_id} stripe dp_`),
      )
      for (const [format, chargeback] of [
        ['csv', `,WalletAdjusted,.*,${deposit.deposit_id},stripe dp_`],
        ['hledger', `dispute\\n(    ; .*\\n)+    ; deposit:${deposit.deposit_id}\\n`],
        ['beancount', `"dispute"\\n(  .*\\n)+  deposit: "${deposit.deposit_id}"\\n`],
      ] as const) {
        const file = join(app.env.FAREBOX_DATA ?? '', format)
        await ledger('export', '--format', format, '--out', file)
        assert.match(await readFile(file, 'utf8'), new RegExp(chargeback))
      }
    },
  )

  await t.test("one of a reseller's customer names its deposit in the reseller's book", async () => {
    const acme = await app.resellerWithGateways('Acme', 'btcpay')
    const made = await app.openDeposit(acme.key, { amount_cents: 1000 }, asCustomer('c-1'))
    await app.act(made.deposit_id, 'pay', 1000)
    await app.untilDeposit(acme.key, made.deposit_id, { status: 'paid' })
    await app.act(made.deposit_id, 'dispute')
    const { rows } = await app.core.pool.query<{ customer_id: string }>(
      "select customer_id from vault.customers where account_id = $1 and ref = 'c-1'",
      [acme.accountId],
    )
    const path = `accounts/${rows[0]?.customer_id}/statement?book=reseller:${acme.accountId}`
    await until(async () => (await ask(path)).total === 2)
    const { account, lines } = await ask(path)
    assert.equal(account, `liabilities:customer:${rows[0]?.customer_id}`)
    assert.deepEqual(
      lines.map(({ type, depositId }: Record<string, string>) => [type, depositId]),
      [
        ['CustomerCredited', made.deposit_id],
        ['CustomerAdjusted', made.deposit_id],
      ],
    )
  })
})

test('an account is found, and a book refused, as on the command line', async (t) => {
  const {
    client,
    financeToken: key,
    cli,
    customer,
  } = await testApp(t, { own: 'file', with: ['financeToken'] })
  const get = (path: string) => client.get(`${finance}/${path}`, { key })
  const { accountId } = await customer({ cents: 1234 })
  const wallet = `liabilities:wallet:${accountId}`

  await t.test('the id of an account selects its wallet', async () => {
    for (const path of ['', '/statement']) {
      const byId = await get(`accounts/${accountId}${path}`)
      assert.equal(byId.status, 200, byId.text)
      assert.deepEqual([byId.body.account, byId.body.balanceMicros], [wallet, '-12340000'])
      assert.deepEqual(byId.body, (await get(`accounts/${wallet}${path}`)).body)
    }
  })

  await t.test('an unknown book is 400 with the accepted books, also with an account', async () => {
    const message = 'there is no book zz; a book is service, or reseller:ACCOUNT_ID'
    for (const path of ['trial-balance', `accounts/${wallet}`, `accounts/${wallet}/statement`]) {
      const { status, body } = await get(`${path}?book=zz`)
      assert.deepEqual([status, body.code, body.error], [400, 'invalid_parameter', message], path)
    }
    for (const args of [['trial-balance'], ['account', wallet], ['statement', wallet]]) {
      const { code, err } = await cli.text('ledger', ...args, '--book', 'zz')
      assert.equal(code, 2)
      assert.ok(err.includes(message), err)
    }
    const customers = await get(`trial-balance?book=reseller:${accountId}`)
    assert.equal(customers.body.code, 'invalid_parameter', 'who is no reseller has no book')
  })

  await t.test("a reseller's book without movements is empty, and not unknown", async () => {
    const { accountId: reseller } = await customer({ cents: 0, reseller: true })
    const { status, body } = await get(`trial-balance?book=reseller:${reseller}`)
    assert.deepEqual([status, body.total, body.totals], [200, 0, []])
    const { code, out } = await cli.text('ledger', 'trial-balance', '--book', `reseller:${reseller}`)
    assert.deepEqual([code, out.startsWith('no entries as of position')], [0, true])
  })

  await t.test('an account name of several resellers needs a book', async () => {
    const [one, other] = [
      await customer({ cents: 100, reseller: true }),
      await customer({ cents: 200, reseller: true }),
    ]
    const { status, body } = await get('accounts/equity:funding')
    assert.deepEqual([status, body.code], [400, 'invalid_parameter'])
    assert.match(
      body.error,
      /^several books have an account equity:funding: name one as book, e\.g\. reseller:acc_/,
    )
    const named = await get(`accounts/equity:funding?book=reseller:${other.accountId}`)
    assert.equal(named.body.balanceMicros, '-2000000')
    assert.notEqual(one.accountId, other.accountId)
  })

  await t.test('a statement of a parent says where its accounts are listed', async () => {
    const { status, body } = await get('accounts/liabilities/statement')
    assert.deepEqual([status, body.code], [404, 'not_found'])
    assert.match(body.error, /^liabilities stands for those below it and has no lines of its own/)
    const unknown = await get(`accounts/${wallet}x?book=service`)
    assert.deepEqual(
      [unknown.status, unknown.body.error],
      [404, `the book service has no account ${wallet}x; the trial balance lists them all`],
    )
  })
})
