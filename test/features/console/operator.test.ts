import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { disputeQueue } from '../../../src/features/deposits/disputes.ts'
import { hiddenField, staffBrowser } from '../../support/console.ts'
import { limitAlone } from '../../support/four-eyes.ts'
import { operate } from '../../support/operator.ts'
import { type TestApp, testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

type Stored = { readonly type: string; readonly data: Record<string, unknown>; readonly actor: string }

/** The events of a stream with who caused each. */
const eventsOf = async ({ farebox }: TestApp, stream: string): Promise<readonly Stored[]> => {
  const found: Stored[] = []
  for await (const { type, data, metadata } of farebox.core.log.readStream(stream as never)) {
    const { actor } = JSON.parse(metadata)
    found.push({ type, data: JSON.parse(data), actor: actor.subjectId ?? actor.kind })
  }
  return found
}

test('the pages of an operator', async (t) => {
  const app = await testApp(t, { own: true })
  const account = await app.customer({ email: 'wim@example.com', cents: 500_000 })
  const operator = await staffBrowser(app, ['operator'])
  const order = async (key: string, body: object) =>
    (
      await app.buyer.post('/api/v1/orders', body, {
        key: account.key,
        headers: { 'Idempotency-Key': key },
      })
    ).body
  const isp = { product_id: 'isp-static', fulfillment_meta: { country: 'USA', period_days: 30 } }
  const wallet = async () =>
    (await app.buyer.get('/api/v1/wallet', { key: account.key })).body.balanceCents as number
  const here = `/console/operator/accounts/${account.accountId}`
  const find = (q: string) => operator.get(`/console/search?${new URLSearchParams({ q })}`)

  await t.test('search finds an account, an order, a resource, an event and an address', async () => {
    const dedicated = await order('found', { ...isp, quantity: 1 })
    const proxyId = dedicated.proxyIds[0] as string
    assert.equal((await find('WIM@example.com')).to, here)
    assert.equal((await find(account.accountId)).to, here)
    assert.equal((await find(dedicated.orderId)).to, `/console/operator/orders/${dedicated.orderId}`)
    const proxy = await operator.open(`/console/search?q=${proxyId}`)
    assert.match(proxy.html, /History of a proxy/)
    assert.match(proxy.html, /AddressesAllocated/)
    const { rows } = await app.core.pool.query('select ip from read.proxies where proxy_id = $1', [proxyId])
    const address = await find(rows[0].ip)
    assert.match(address.html, /In stock of isp-static in USA/)
    assert.match(address.html, new RegExp(`href="${here}"`))
    assert.match(address.html, new RegExp(`href="/console/trail/${proxyId}"`))
    const replaced = await app.buyer.post(
      `/api/v1/proxies/${proxyId}/replace`,
      { reason: 'not_working' },
      { key: account.key },
    )
    assert.equal(replaced.status, 200)
    const states = async (ip: string) => [
      ...(await find(ip)).html.matchAll(/wim@example\.com .*?state (good|off)">(\w+)</gs),
    ]
    assert.deepEqual(
      (await states(rows[0].ip)).map(([, , state]) => state),
      ['ended'],
    )
    assert.deepEqual(
      (await states(replaced.body.ip)).map(([, , state]) => state),
      ['current'],
    )
    assert.match((await operator.get('/console/trail/pos_0_1')).html, /An event and its request/)
    assert.equal((await operator.get('/console/trail/pos_0_999999999')).status, 404)
  })

  await t.test(
    'an unsuccessful search is reported at the field, escaped, with the accepted input',
    async () => {
      for (const q of [
        'unknown@example.com',
        `acc_${'0'.repeat(32)}`,
        'cus_unknown',
        '<script>x</script>',
        "' or 1=1",
      ]) {
        const { status, html } = await find(q)
        assert.equal(status, 200, q)
        assert.match(html, /id="q-problem"/, q)
        assert.doesNotMatch(html, /<script>x/)
      }
      for (const id of [`ord_${'0'.repeat(32)}`, 'ord_', '%00', '..'])
        assert.equal((await operator.get(`/console/trail/${encodeURIComponent(id)}`)).status < 500, true, id)
    },
  )

  await t.test('accounts page by key, each once', async () => {
    for (let made = 0; made < 55; made += 1)
      await app.customer({ email: `crowd${made}@example.com`, cents: 1 })
    const seen: string[] = []
    for (let next: string | undefined = '/console/operator/accounts'; next !== undefined; ) {
      const { html } = await operator.get(next)
      seen.push(
        ...[...html.matchAll(/href="\/console\/operator\/accounts\/(acc_\w+)"/g)].map(([, id]) => id!),
      )
      next = /<a href="([^"]+)" rel="next">/.exec(html)?.[1]?.replaceAll('&amp;', '&')
    }
    const listed = await operate(['accounts', 'list', '--limit', '1000', '--json'], app.env)
    const { accounts } = JSON.parse(listed.out) as { accounts: { accountId: string }[] }
    assert.deepEqual(
      seen,
      accounts.map(({ accountId }) => accountId),
    )
  })

  await t.test('an account is blocked with a reason and unblocked; the log names the operator', async () => {
    assert.equal((await operator.post(`${here}/block`, { reason: '' })).status, 400)
    assert.equal((await operator.post(`${here}/block`, { reason: 'card fraud' })).to, here)
    const shown = await operator.get(here)
    assert.match(shown.html, /blocked<\/span> since .*card fraud/s)
    assert.equal((await order('blocked', { ...isp, quantity: 1 })).code, 'account_blocked')
    assert.equal((await operator.post(`${here}/unblock`)).to, here)
    // A process caches a key for up to a second.
    await until(async () => (await order('again', { ...isp, quantity: 1 })).status === 'completed', {
      what: 'an order of the account that was unblocked',
    })
    const acts = (await eventsOf(app, `account-${account.accountId}`)).filter(({ type }) =>
      ['AccountBlocked', 'AccountUnblocked'].includes(type),
    )
    assert.deepEqual(
      acts.map(({ type, actor }) => [type, actor]),
      [
        ['AccountBlocked', operator.staffId],
        ['AccountUnblocked', operator.staffId],
      ],
    )
    assert.equal(acts[0]?.data.reason, 'card fraud')
  })

  await t.test(
    'a wallet is credited once for the same reference, however often the form is sent',
    async () => {
      const before = await wallet()
      for (const [field, value] of [
        ['amount', 'ten'],
        ['amount', '0'],
        ['amount', '-5'],
        ['reference', ''],
        ['kind', ''],
      ] as const) {
        const form = hiddenField(await operator.get(`${here}/credit`), 'form')
        const { status, html } = await operator.post(`${here}/credit`, {
          form,
          amount: '10',
          kind: 'payment',
          reference: 'ticket 1',
          [field]: value,
        })
        assert.equal(status, 400, value)
        assert.match(html, new RegExp(`id="${field}-problem"`), value)
      }
      const form = hiddenField(await operator.get(`${here}/credit`), 'form')
      const sent = { form, amount: '$1,000.25', kind: 'payment', reference: 'ticket 4711' }
      await Promise.all([1, 2, 3].map(() => operator.post(`${here}/credit`, sent)))
      assert.equal(await wallet(), before + 100_025)
      const again = hiddenField(await operator.get(`${here}/credit`), 'form')
      const second = await operator.post(`${here}/credit`, { ...sent, form: again })
      assert.equal(second.status, 409)
      assert.match(second.html, /credited \$1,000\.25 before/)
      assert.equal(await wallet(), before + 100_025)
      const credits = (await eventsOf(app, `ledger-${account.accountId}`)).filter(
        ({ data }) => data.reference === 'ticket 4711',
      )
      assert.deepEqual(
        credits.map(({ type, actor }) => [type, actor]),
        [['WalletCredited', operator.staffId]],
      )
    },
  )

  await t.test('a gift is recorded as goodwill or a correction, and is no money received', async () => {
    const before = await wallet()
    for (const kind of ['goodwill', 'correction']) {
      const form = hiddenField(await operator.get(`${here}/credit`), 'form')
      const { to } = await operator.post(`${here}/credit`, {
        form,
        amount: '2',
        kind,
        reference: `a ${kind}`,
      })
      assert.equal(to, here)
    }
    assert.equal(await wallet(), before + 400)
    const gifts = (await eventsOf(app, `ledger-${account.accountId}`)).filter(({ data }) =>
      String(data.reference).startsWith('a '),
    )
    assert.deepEqual(
      gifts.map(({ type, data }) => [type, data.reason]),
      [
        ['WalletAdjusted', 'goodwill'],
        ['WalletAdjusted', 'correction'],
      ],
    )
  })

  await t.test(
    'above the approval limit a credit waits for another operator, who confirms their identity',
    async () => {
      await limitAlone(app.core.log, 10_000)
      assert.match((await operator.get('/console/operator/proposals')).html, /Nothing waits for approval/)
      const before = await wallet()
      const sent = async (amount: string, reference: string) =>
        operator.post(`${here}/credit`, {
          form: hiddenField(await operator.get(`${here}/credit`), 'form'),
          amount,
          kind: 'payment',
          reference,
        })
      const { to } = await sent('100.01', 'large <b>')
      assert.match(to ?? '', /^\/console\/operator\/proposals\/prp_/)
      assert.equal(await wallet(), before)
      const own = await operator.get(to!)
      assert.match(own.html, /Withdraw/)
      assert.doesNotMatch(own.html, /\/approve"|<b>/)
      const form = async (by: typeof operator) => ({
        form: hiddenField(await by.get(`${to}/approve`), 'form'),
      })
      const refused = await operator.post(`${to}/approve`, await form(operator))
      assert.equal(refused.status, 409)
      assert.match(refused.html, /You proposed it/)

      const other = await staffBrowser(app, ['operator'])
      const listed = await other.get('/console/operator/proposals')
      assert.match(listed.html, /large &lt;b&gt;/)
      assert.match(listed.html, new RegExp(`${operator.staffId}.*${to}|${to}.*${operator.staffId}`, 's'))
      const unconfirmed = await staffBrowser(app, ['operator'], { confirmed: false })
      assert.match((await unconfirmed.get(`${to}/approve`)).to ?? '', /confirm/)
      // Whatever a table contains, the second operator sees what they approve.
      const { pool } = app.core
      await pool.query(`update read.proposals set what = what || '{"amountMicros": 10000}'`)
      const approval = (await other.get(`${to}/approve`)).html
      assert.match(approval, /Approve: credit \$100\.01/)
      assert.match(approval, /<dt>Account<\/dt><dd>wim@example\.com .*<dt>Balance<\/dt>/s)
      await pool.query(`update read.proposals set what = what || '{"amountMicros": 100010000}'`)
      const once = await form(other)
      await Promise.all([1, 2].map(() => other.post(`${to}/approve`, once)))
      assert.equal(await wallet(), before + 10_001)
      assert.match((await other.get(to!)).html, /approved/)
      const late = await other.post(`${to}/approve`, await form(other))
      assert.equal(late.status, 409)
      assert.equal(await wallet(), before + 10_001)

      const second = (await sent('200', 'again')).to!
      assert.equal((await other.post(`${second}/close`, { note: 'not ours' })).to, second)
      const closed = await other.get(second)
      assert.match(closed.html, /declined/)
      assert.match(closed.html, /not ours/)
      assert.match((await other.get('/console/operator/proposals?show=all')).html, /declined/)
      assert.equal(await wallet(), before + 10_001)
    },
  )

  await t.test('an order is refunded in part, by rentals, and never above the remaining amount', async () => {
    const bought = await order('refunded', { ...isp, quantity: 3 })
    const path = `/console/operator/orders/${bought.orderId}`
    const paid = await wallet()
    const send = async (fields: Record<string, string | string[]>) =>
      operator.post(`${path}/refund`, {
        form: hiddenField(await operator.get(`${path}/refund`), 'form'),
        ...fields,
      })
    assert.equal((await send({ amount: '1000000', reference: 'x' })).status, 400)
    assert.equal((await send({ amount: '1', rentals: bought.proxyIds[0], reference: 'x' })).status, 400)
    assert.equal((await send({ rentals: `prx_${'0'.repeat(32)}`, reference: 'x' })).status, 400)
    assert.equal((await send({ amount: '1' })).status, 400)
    assert.equal(await wallet(), paid)
    assert.equal((await send({ amount: '0.50', reference: 'slow' })).to, path)
    assert.equal(await wallet(), paid + 50)
    assert.equal((await send({ amount: '0.50', reference: 'slow' })).status, 409)
    assert.equal((await send({ rentals: bought.proxyIds[0], reference: 'one' })).to, path)
    assert.equal((await send({ reference: 'the rest' })).to, path)
    assert.equal(await wallet(), paid + bought.amountCents)
    const shown = await operator.get(path)
    assert.match(shown.html, /refunded/)
    assert.doesNotMatch(shown.html, /\/refund"/)
    assert.match(shown.html, /credit 0\.50|debit 0\.50/)
    const decided = (await eventsOf(app, `order-${bought.orderId}`)).filter(
      ({ type }) => type === 'RefundDecided',
    )
    assert.deepEqual(
      decided.map(({ data, actor }) => [data.reference, actor]),
      ['slow', 'one', 'the rest'].map((reference) => [reference, operator.staffId]),
    )
  })

  await t.test(
    'abandoned work of a queue pages by key, and a retry records its operator in the log',
    async () => {
      const { pool } = app.core
      const { rows } = await pool.query<{ column_name: string; data_type: string }>(
        `select column_name, data_type from information_schema.columns
        where table_schema = 'work' and table_name = $1 and is_nullable = 'NO' and column_default is null`,
        [disputeQueue.table.replace('work.', '')],
      )
      const value = (type: string, n: number): unknown =>
        type.startsWith('timestamp')
          ? new Date(1_700_000_000_000 + n * 1000).toISOString()
          : ['integer', 'bigint'].includes(type)
            ? n
            : type === 'jsonb'
              ? '{}'
              : `dead-${String(n).padStart(3, '0')}`
      for (let n = 0; n < 60; n += 1) {
        const columns = [...rows.map(({ column_name }) => column_name), 'status', 'finished_at', 'result']
        const values = [
          ...rows.map(({ data_type }) => value(data_type, n)),
          'dead',
          new Date(1_700_000_000_000 + (n % 7) * 1000).toISOString(),
          '<b>no answer</b>',
        ]
        const cells = new Map(columns.map((column, at) => [column, values[at]]))
        await pool.query(
          `insert into ${disputeQueue.table} (${[...cells.keys()].join(', ')}) values (${[...cells.keys()].map((_, at) => `$${at + 1}`).join(', ')})`,
          [...cells.values()],
        )
      }
      const path = `/console/operator/queues/${disputeQueue.name}`
      assert.match((await operator.get('/console/operator/queues')).html, /class="state bad">60</)
      const items: string[] = []
      for (let next: string | undefined = path; next !== undefined; ) {
        const { html } = await operator.get(next)
        assert.doesNotMatch(html, /<b>no answer/)
        items.push(...[...html.matchAll(/name="item" value="([^"]+)"/g)].map(([, item]) => item!))
        next = /<a href="([^"]+)" rel="next">/.exec(html)?.[1]?.replaceAll('&amp;', '&')
      }
      assert.equal(items.length, 60)
      assert.equal(new Set(items).size, 60)
      assert.equal((await operator.post(path)).status, 400)
      const dead = async () =>
        (await pool.query(`select count(*) as n from ${disputeQueue.table} where status = 'dead'`)).rows[0].n
      assert.equal((await operator.post(path, { item: items[0]! })).to, path)
      assert.ok((await dead()) < 60)
      assert.equal((await operator.post(path, { all: 'yes' })).to, path)
      const retries = (await eventsOf(app, `console-${operator.staffId}`)).filter(
        ({ type }) => type === 'WorkRetryAsked',
      )
      assert.deepEqual(
        retries.map(({ data, actor }) => [data.queue, data.item, actor]),
        [
          [disputeQueue.name, items[0], operator.staffId],
          [disputeQueue.name, null, operator.staffId],
        ],
      )
      assert.equal((await operator.get('/console/operator/queues/none')).status, 404)
    },
  )

  await t.test('a catalogue is imported exactly as previewed', async () => {
    const path = '/console/operator/catalogue'
    const file = JSON.parse(await readFile('src/app/demo/catalog.json', 'utf8'))
    const send = async (typed: object, from: { readonly html: string } | null = null) =>
      operator.post(path, {
        form: hiddenField((from ?? (await operator.get(path))) as never, 'form'),
        digest: from === null ? '' : hiddenField(from as never, 'digest'),
        standing: from === null ? '' : hiddenField(from as never, 'standing'),
        ...typed,
      })
    for (const text of [
      '',
      '{',
      '{"products": []}',
      JSON.stringify({ products: [{ ...file.products[0], id: 5 }] }),
    ]) {
      const { status, html } = await send({ file: text, do: 'import' })
      assert.ok(status === 400 || status === 409, `${status}`)
      assert.match(html, /id="file-problem"/, text.slice(0, 40))
    }
    const [first] = file.products
    const before = first.tiers[0].unitPriceMicros as number
    first.tiers[0].unitPriceMicros = before + 10_000
    const text = JSON.stringify(file)
    const preview = await send({ file: text, do: 'preview' })
    assert.equal(preview.status, 200)
    assert.match(preview.html, />1 change</)
    const row = new RegExp(
      `<code>${first.id}: tiers\\[0\\]\\.unitPriceMicros</code></th><td[^>]*><code>${before}</code></td><td[^>]*><code>${before + 10_000}</code>`,
    )
    assert.match(preview.html, row)
    const other = JSON.parse(text)
    other.products[0].tiers[0].unitPriceMicros = before + 50_000
    const refused = await send({ file: JSON.stringify(other), do: 'import' }, preview)
    assert.equal(refused.status, 409, 'another file than was shown')
    const again = await send({ file: text, do: 'preview' })
    assert.equal((await send({ file: text, do: 'import' }, again)).to, path)
    const stood = await eventsOf(app, 'catalog')
    assert.equal(stood.at(-1)?.actor, operator.staffId)
    const late = await send({ file: text, do: 'preview' })
    assert.match(late.html, /This is the current catalogue/)
  })

  await t.test('stock is counted by pool, from the log', async () => {
    const { stock: pools } = JSON.parse((await operate(['stock', 'list', '--json'], app.env)).out) as {
      stock: { productId: string; country: string; total: number; available: number; rented: number }[]
    }
    const shown: string[] = []
    for (let next: string | undefined = '/console/operator/stock'; next !== undefined; ) {
      const { html } = await operator.get(next)
      for (const [, row = ''] of html.matchAll(/<tr>(<th scope="row">.*?)<\/tr>/gs)) {
        const cells = [...row.matchAll(/<t[hd][^>]*>(.*?)<\/t[hd]>/gs)].map(([, cell]) => cell)
        const pool = cells[0]?.replace(/ <small>.*/, '').replace(',', '')
        shown.push([pool, cells[1], cells[2], cells[4]].join(' '))
      }
      next = /<a href="([^"]+)" rel="next">/.exec(html)?.[1]?.replaceAll('&amp;', '&')
    }
    assert.ok(pools.length > 1)
    assert.deepEqual(
      shown.sort(),
      pools
        .map(({ productId, country, total, rented, available }) =>
          [productId, country, total, rented, available].join(' '),
        )
        .sort(),
    )
    for (const before of ['x', '~~~', "a~b~c~d~'"])
      assert.equal(
        (await operator.get(`/console/operator/stock?before=${encodeURIComponent(before)}`)).status,
        200,
      )
  })

  await t.test('exits are listed, drained and reactivated; the log names the operator', async () => {
    const path = '/console/operator/exits'
    assert.match((await operator.get(path)).html, /No exit is imported/)
    const file = join(app.env.FAREBOX_DATA ?? '', 'exits.jsonl')
    const exit = (exitId: string, port: number) =>
      JSON.stringify({
        id: exitId,
        kind: 'http',
        host: '198.51.100.7',
        port,
        country: 'us',
        family: 'residential',
        username: 'u',
        password: 'exit-s3cret',
      })
    await writeFile(file, `${exit('us-one', 1)}\n${exit('us-two', 2)}\n`)
    const imported = await operate(['exits', 'import', file], app.env)
    assert.equal(imported.code, 0, imported.err)
    const { html } = await operator.get(path)
    assert.match(html, /us-one.*198\.51\.100\.7:1/s)
    assert.doesNotMatch(html, /s3cret/)
    for (const to of ['drained', 'drained', 'live'])
      assert.equal((await operator.post(path, { exit: 'us-one', to })).to, path)
    for (const [typed, status] of [
      [{ exit: 'us-one', to: 'removed' }, 400],
      [{ exit: 'unknown', to: 'drained' }, 409],
    ] as const)
      assert.equal((await operator.post(path, typed)).status, status)
    const changes = (await eventsOf(app, 'exits')).filter(({ type }) => type === 'ExitsStateChanged')
    assert.deepEqual(
      changes.map(({ data, actor }) => [data.exitIds, data.state, actor]),
      [
        [['us-one'], 'drained', operator.staffId],
        [['us-one'], 'live', operator.staffId],
      ],
    )
  })

  await t.test('a notice is previewed, published once, and withdrawn', async () => {
    const path = '/console/operator/notices/new'
    const typed = {
      title: 'Rates <b>change',
      body: 'From Monday on.\nNothing is to do.',
      kind: 'PRICING',
      audience: 'PARTNERS',
    }
    const fresh = async (more: object) => ({
      ...typed,
      form: hiddenField(await operator.get(path), 'form'),
      ...more,
    })
    for (const [field, value] of [
      ['title', ''],
      ['body', ''],
      ['kind', 'SHOUT'],
      ['audience', 'EVERYBODY'],
      ['expiresAt', 'tomorrow'],
      ['expiresAt', '2020-01-01'],
      ['linkHref', 'javascript:alert(1)'],
    ] as const) {
      const { status, html } = await operator.post(path, await fresh({ [field]: value, do: 'publish' }))
      assert.equal(status, 400, value)
      assert.match(html, new RegExp(`id="${field}-problem"`), `${field} ${value}`)
    }
    const preview = await operator.post(path, await fresh({ do: 'preview' }))
    assert.equal(preview.status, 200)
    assert.match(preview.html, /Rates &lt;b&gt;change/)
    const { rows } = await app.core.pool.query(
      'select count(*) as partners from read.accounts where reseller',
    )
    assert.ok(preview.html.includes(`${rows[0].partners} account`), 'the size of the audience')
    const partners = async () => (await app.reseller.get('/api/v1/announcements')).body.announcements
    assert.equal((await partners()).length, 0, 'a preview publishes nothing')
    const sent = { ...typed, form: hiddenField(preview, 'form'), do: 'publish' }
    for (let n = 0; n < 2; n += 1) assert.equal((await operator.post(path, sent)).status, 303)
    await until(async () => (await partners()).length === 1, { what: 'the notice' })
    const [{ id, noticeId = id, title, body }] = await partners()
    assert.deepEqual([title, body], [typed.title, typed.body])
    const listed = await operator.get('/console/operator/notices')
    const [, down = ''] = /href="(\/console\/operator\/notices\/ntc_\w+\/expire)"/.exec(listed.html) ?? []
    assert.ok(down.includes(noticeId))
    assert.match((await operator.get(down)).html, /Take it down/)
    assert.equal((await operator.post(down)).to, '/console/operator/notices')
    await until(async () => (await partners()).length === 0, { what: 'the notice to be gone' })
    const acts = await eventsOf(app, `notice-${noticeId}`)
    assert.deepEqual(
      acts.map(({ type, actor }) => [type, actor]),
      [
        ['NoticePublished', operator.staffId],
        ['NoticeExpired', operator.staffId],
      ],
    )
    assert.equal((await operator.get(`/console/operator/notices/ntc_${'0'.repeat(32)}/expire`)).status, 404)
    assert.equal((await operator.post(`/console/operator/notices/ntc_${'0'.repeat(32)}/expire`)).status, 404)
  })

  await t.test('projections and settings are shown, and secrets are not', async () => {
    assert.match((await operator.get('/console/operator/projections')).html, />hot</)
    const { html } = await operator.get('/console/operator/settings')
    assert.match(html, /FAREBOX_SMTP_URL/)
    const key = app.env.FAREBOX_MASTER_KEY ?? ''
    assert.notEqual(key, '')
    // As text: a key in base64 may hold what means something else in an expression.
    assert.equal(html.includes(key), false)
  })

  await t.test('addresses are stocked once, as by the command, and errors are shown', async () => {
    const page = '/console/operator/stock/add'
    const sent = async (form: Readonly<Record<string, string>>) =>
      operator.post(page, { form: hiddenField(await operator.open(page), 'form'), ...form })
    const isps = { product: 'isp-static', country: 'usa' }
    const refused = await sent({ ...isps, text: '203.0.113.7\n<b>no address', asn: '0' })
    assert.equal(refused.status, 400)
    assert.match(refused.html, /id="asn-problem"/)
    const wrong = await sent({ ...isps, text: '203.0.113.7\n<b>no address' })
    assert.equal(wrong.status, 400)
    assert.match(wrong.html, /id="text-problem"/)
    assert.match(wrong.html, /203\.0\.113\.7\n&lt;b&gt;no address<\/textarea>/)
    const file = [
      { product: 'isp-static', country: 'USA', ip: '203.0.113.7' },
      {
        product: 'isp-static',
        country: 'DEU',
        ip: '203.0.113.8',
        endpoint: {
          protocol: 'socks5',
          host: 'gw.acme.example',
          port: 1080,
          username: 'u',
          password: 's3cret',
        },
      },
    ]
    const added = await sent({ text: JSON.stringify(file) })
    assert.equal(added.status, 200, added.html)
    assert.match(added.html, /1 address of isp-static in USA/)
    assert.match(added.html, /1 address of isp-static in DEU/)
    const again = await sent({ product: 'isp-static', country: 'FRA', text: '203.0.113.7' })
    assert.match(again.html, /203\.0\.113\.7 \(isp-static in USA\)/)
    const stored = await eventsOf(app, 'address-203.0.113.8')
    assert.deepEqual(
      stored.map(({ type, actor }) => [type, actor]),
      [['AddressStocked', operator.staffId]],
    )
    const events = JSON.stringify(await eventsOf(app, 'stock-isp-static-DEU'))
    assert.match(events, /203\.0\.113\.8/)
    assert.doesNotMatch(events, /s3cret/)
  })

  await t.test('a group of read tables is compared and rebuilt from its page', async () => {
    const page = '/console/operator/projections/hot'
    const { pool } = app.core
    const ends = async (what: string): Promise<string> => {
      let html = ''
      await until(
        async () => {
          html = (await operator.open(page)).html
          return !/state warn|state bad">failed/.test(html)
        },
        { what },
      )
      return html
    }
    const begin = async (act: string) =>
      operator.post(page, { form: hiddenField(await operator.open(page), 'form'), do: act })
    assert.equal((await begin('nothing')).status, 400)
    await pool.query(`update read.notices set title = 'tampered'`)
    assert.equal((await begin('compare')).to, page)
    const compared = await ends('the comparison')
    assert.match(compared, /state bad">1 difference</)
    assert.match(compared, /title was &quot;tampered&quot;/)
    assert.equal((await begin('replace')).to, page)
    const made = await ends('the rebuild')
    assert.match(made, /the new tables are live/)
    assert.equal((await begin('compare')).to, page)
    assert.match(await ends('another comparison'), /state good">the same</)
    assert.equal((await operator.get('/console/operator/projections/nothing')).status, 404)
  })
})
