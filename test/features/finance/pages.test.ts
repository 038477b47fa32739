import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { createExportRuns, type Exporter } from '../../../src/features/exports/export-runs.ts'
import { utcCalendar } from '../../../src/kernel/calendar.ts'
import { positionToken } from '../../../src/kernel/log-position.ts'
import { closingDelayMs } from '../../../src/kernel/months.ts'
import { periodStream } from '../../../src/kernel/streams.ts'
import { changeSessions, hiddenField, staffBrowser } from '../../support/console.ts'
import { dataDirectory } from '../../support/farebox.ts'
import { operate } from '../../support/operator.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

/** The text of the cells of a page's tables. */
const rowsOf = (html: string): readonly (readonly string[])[] =>
  [...html.matchAll(/<tr>(<t[hd] ?(?:scope="row"|class="number")?.*?)<\/tr>/gs)].map(([, row = '']) =>
    [...row.matchAll(/<t[hd][^>]*>(.*?)<\/t[hd]>/gs)].map(([, cell = '']) =>
      cell.replaceAll(/<[^>]+>/g, '').trim(),
    ),
  )

/** The micro-dollars on a page or in a file: credits are negative. */
const microsOf = (text: string): bigint => {
  const [, minus, whole, fraction, side] = /^([-\u2212]?)([\d,]+)\.(\d{2,6})( Dr| Cr)?$/.exec(text) ?? []
  assert.ok(whole !== undefined && fraction !== undefined, text)
  const micros = BigInt(whole.replaceAll(',', '')) * 1_000_000n + BigInt(fraction.padEnd(6, '0'))
  return minus === '' && side !== ' Cr' ? micros : -micros
}

test('the pages of finance', async (t) => {
  const app = await testApp(t, { own: 'file' })
  const account = await app.customer({ email: 'fay@example.com', cents: 20_000 })
  const finance = await staffBrowser(app, ['finance'])
  const { log } = app.core
  const beforeOrders = await log.head()
  const order = async (key: string, quantity: number) => {
    const { status, body } = await app.buyer.post(
      '/api/v1/orders',
      { product_id: 'residential-premium', quantity },
      { key: account.key, headers: { 'Idempotency-Key': key } },
    )
    assert.equal(status, 201, JSON.stringify(body))
    return body as { orderId: string; amountCents: number }
  }
  const orders = [await order('one', 2), await order('two', 3)]
  const spent = orders.reduce((sum, { amountCents }) => sum + BigInt(amountCents) * 10_000n, 0n)
  const lines = (query: Record<string, string>) =>
    finance.open(`/console/finance/account?${new URLSearchParams(query)}`)
  const wallet = { name: account.accountId }
  const figure = (html: string): bigint => microsOf(/<p class="figure">([^<]+)<\/p>/.exec(html)?.[1] ?? '')

  await t.test(
    'each book of the trial balance sums to zero, and each account links to its lines',
    async () => {
      const { html } = await finance.open('/console/finance/balance')
      const totals = rowsOf(html).filter(([name]) => name === 'Total')
      assert.ok(totals.length > 0)
      for (const row of totals) assert.equal(microsOf(row.at(-1) ?? ''), 0n)
      const listed = JSON.parse(
        (await operate(['ledger', 'trial-balance', '--depth', '2', '--format', 'json'], app.env)).out,
      )
      const named: string[] = listed.accounts.map(({ account: name }: { account: string }) => name)
      for (const name of named) assert.ok(html.includes(encodeURIComponent(name)), name)
      for (const [, href = ''] of html.matchAll(/href="(\/console\/finance\/account\?[^"]+)"/g))
        assert.equal((await finance.get(href.replaceAll('&amp;', '&'))).status, 200, href)
    },
  )

  await t.test(
    'a wallet is shown now and as of an earlier position, and its lines add up to both',
    async () => {
      const current = (await lines(wallet)).html
      assert.match(current, /owner fay@example\.com/)
      const now = figure(current)
      const then = figure((await lines({ ...wallet, to: String(beforeOrders) })).html)
      assert.equal(then - now, -spent, 'a credit of the books is below zero')
      const { html } = await lines({ ...wallet, from: String(beforeOrders + 1) })
      const moved = rowsOf(html).filter(([event, ...rest]) => rest.length === 4 && event !== 'Entry')
      assert.deepEqual(
        moved.map((row) => microsOf(row[3] ?? '')),
        orders.map(({ amountCents }) => BigInt(amountCents) * 10_000n).toReversed(),
      )
      assert.equal(microsOf(moved[0]?.[4] ?? ''), now)
      assert.match(moved[0]?.[0] ?? '', /^order/)
      assert.match(moved[0]?.[1] ?? '', /^Premium residential/)
      for (const { orderId } of orders)
        assert.match(html, new RegExp(`href="/console/operator/orders/${orderId}"`))
      const [, event = ''] = /<caption>[\s\S]*?href="(\/console\/trail\/pos_0_\d+)"/.exec(html) ?? []
      const trail = await finance.open(event)
      assert.match(trail.html, /href="\/console\/finance\/account\?book=/, 'and the event leads back')
    },
  )

  await t.test('each table can be downloaded as a file', async () => {
    const { html } = await lines(wallet)
    const [, href = ''] = /href="(\/console\/finance\/statement\.csv[^"]+)"/.exec(html) ?? []
    const { html: text } = await finance.get(href.replaceAll('&amp;', '&'))
    const [heading = '', ...rows] = text.trim().split('\r\n')
    const at = heading.split(',').indexOf('balance')
    assert.equal(rows.length, 3, 'the credit and two orders')
    assert.equal(microsOf(rows.at(-1)?.split(',')[at] ?? ''), figure(html))
    const balance = await finance.get('/console/finance/balance.csv?depth=2')
    const said = await operate(['ledger', 'trial-balance', '--depth', '2', '--format', 'csv'], app.env)
    assert.equal(balance.html.trim(), said.out.trim())
  })

  await t.test('a comparison of two moments shows the differences', async () => {
    const { html } = await finance.open(`/console/finance/balance?from=${beforeOrders + 1}&book=service`)
    assert.match(html, /<h1>Changes<\/h1>/)
    const [, before, debits, credits, after] =
      rowsOf(html).find(([name]) => name?.startsWith('revenue')) ?? []
    assert.deepEqual(
      [microsOf(debits ?? ''), microsOf(credits ?? '')].map((micros) => (micros < 0n ? -micros : micros)),
      [0n, spent],
    )
    assert.equal(microsOf(after ?? ''), microsOf(before ?? '') - spent)
  })

  await t.test('an invalid moment or account is reported at its field, which keeps the input', async () => {
    for (const [path, field, typed] of [
      ['balance', 'to', 'yesterday'],
      ['balance', 'from', '9999999999'],
      ['balance', 'book', '"><script>x'],
      ['account', 'name', 'nothing-of-this'],
      ['account', 'name', '"><script>x'],
    ] as const) {
      const query = new URLSearchParams({ [field]: typed })
      const { status, html } = await finance.get(`/console/finance/${path}?${query}`)
      assert.equal(status, 200, typed)
      assert.match(html, new RegExp(`id="${field}-problem"`), typed)
      assert.doesNotMatch(html, /<script>x/)
    }
    for (const path of [
      'balance.csv?to=yesterday',
      'balance.csv?book=unknown',
      'statement.csv?name=revenue&to=yesterday',
    ])
      assert.equal((await finance.get(`/console/finance/${path}`)).status, 400, path)
    for (const path of [
      'balance?before=x',
      'account?name=revenue&before=x',
      'verifications?before=x',
      'seals?before=-1',
    ])
      assert.equal((await finance.get(`/console/finance/${path}`)).status, 200, path)
  })

  await t.test('revenue and gateway balances are the sums of the books', async () => {
    const { html } = await finance.open('/console/finance/money')
    const cards = [...html.matchAll(/<h2>([^<]+)<\/h2><p class="figure">([^<]+)<\/p>/g)].map(
      ([, title, amount = '']) => [title, microsOf(amount)] as const,
    )
    const revenue = figure((await lines({ name: 'revenue', book: 'service' })).html)
    assert.equal(new Map(cards).get('Revenue in 30 days, USD'), -revenue)
    const gateways = figure((await lines({ name: 'assets:gateway', book: 'service' })).html)
    const elsewhere = figure((await lines({ name: 'assets:gateway:manual', book: 'service' })).html)
    assert.equal(new Map(cards).get('Balance at payment providers, USD'), gateways - elsewhere)
  })

  await t.test('a verification is listed with its verdict, and a finding links to its event', async () => {
    assert.match((await finance.open('/console/finance/verifications')).html, /never verified/)
    for (const command of ['seal', 'verify'])
      assert.equal((await operate(['ledger', command], app.env)).code, 0)
    const { html } = await finance.open('/console/finance/verifications')
    const [, href = ''] = /href="(\/console\/finance\/verifications\/\w+)"/.exec(html) ?? []
    const clean = await finance.open(href)
    assert.match(clean.html, />clean</)
    assert.match(clean.html, /<p>None\.<\/p>/)
    const { pool } = app.core
    await pool.query('update read.plans set total_bytes = total_bytes + 1 where account_id = $1', [
      account.accountId,
    ])
    assert.equal((await operate(['ledger', 'verify'], app.env)).code, 1)
    await pool.query('update read.plans set total_bytes = total_bytes - 1 where account_id = $1', [
      account.accountId,
    ])
    const after = await finance.open('/console/finance/verifications')
    const [, newest = ''] = /href="(\/console\/finance\/verifications\/\w+)"/.exec(after.html) ?? []
    const differs = await finance.open(newest)
    assert.match(differs.html, />differs</)
    assert.match(differs.html, /1 finding/)
    assert.match(differs.html, /plans.*total_bytes/s)
    assert.equal((await finance.get('/console/finance/verifications/ver_none')).status, 404)
    assert.match(after.html, /2 runs chained.*<code>[0-9a-f]{64}</s)
    await pool.query(`update work.verifications set outcome = 'clean' where link = 2`)
    assert.match(
      (await finance.open('/console/finance/verifications')).html,
      /role="alert"><p>The chain of runs is broken.*run vrf_\w+ \(link 2\) does not fit/s,
    )
    await pool.query(`update work.verifications set outcome = 'differs' where link = 2`)
  })

  await t.test('seals are listed, and their file proves the log without the service', async () => {
    assert.equal((await operate(['ledger', 'seal'], app.env)).code, 0)
    const { html } = await finance.open('/console/finance/seals')
    assert.match(html, /BEGIN PUBLIC KEY/)
    const { html: text, headers } = await finance.get('/console/finance/seals.json')
    assert.match(String(headers['content-disposition']), /seals-\d{4}-\d\d-\d\d\.json/)
    const path = join(await dataDirectory(t), 'seals.json')
    await writeFile(path, text)
    const verified = await operate(['ledger', 'verify', '--seals', path], app.env)
    assert.equal(verified.code, 0, verified.out + verified.err)
  })

  await t.test(
    'a verification is started from the page once, with its progress and its verdict',
    async () => {
      const page = '/console/finance/verifications'
      const runs = async () =>
        (await app.core.pool.query(`select actor, outcome from work.verifications order by started_at`)).rows
      const before = (await runs()).length
      const form = hiddenField(await finance.open(page), 'form')
      assert.match((await finance.post(page, { form })).to ?? '', new RegExp(`^${page}$`))
      assert.equal((await finance.post(page, { form })).status, 303, 'sent again')
      let html = ''
      await until(
        async () => {
          html = (await finance.open(page)).html
          return html.includes('Started from this page') && !/ data-runs|state warn/.test(html)
        },
        { what: 'the verdict' },
      )
      const now = await runs()
      assert.equal(now.length, before + 1)
      assert.equal(now.at(-1)?.outcome, 'clean')
      assert.match(now.at(-1)?.actor, new RegExp(`^session:${finance.staffId}:`))
      assert.match(
        html,
        /<a href="\/console\/finance\/verifications\/vrf_\w+"><span class="state good">clean/,
      )
    },
  )

  await t.test('a replay computes the balances from the log, and reports balances that differ', async () => {
    const page = '/console/finance/replay'
    const { pool } = app.core
    const ends = async (typed: string, what: string): Promise<readonly string[]> => {
      const form = hiddenField(await finance.open(page), 'form')
      assert.equal((await finance.post(page, { form, to: typed })).to, page)
      let html = ''
      await until(
        async () => {
          html = (await finance.open(page)).html
          return !/ data-runs/.test(html)
        },
        { what },
      )
      return rowsOf(html)[1] ?? []
    }
    const [, now, , events] = await ends('', 'the replay')
    assert.equal(now, 'the same')
    assert.ok(Number(events) > beforeOrders)
    const [asOf, then, through, fewer] = await ends(positionToken(beforeOrders), 'the replay of then')
    assert.deepEqual(
      [asOf, then, through],
      [positionToken(beforeOrders), 'the same', positionToken(beforeOrders)],
    )
    assert.equal(Number(fewer), beforeOrders)
    const changed = (by: number) =>
      pool.query(
        `update read.journal_postings set amount_micros = amount_micros + $2 where position = (
           select max(position) from read.journal_postings join read.journal_accounts on number = account_number
           where account = $1) and account_number in (select number from read.journal_accounts where account = $1)`,
        [`liabilities:wallet:${account.accountId}`, by],
      )
    assert.ok(((await changed(10_000)).rowCount ?? 0) > 0)
    const [, differs = ''] = await ends('', 'the replay over a changed table')
    assert.match(differs, /^1 difference/)
    assert.match(differs, new RegExp(account.accountId))
    await changed(-10_000)
    const form = hiddenField(await finance.open(page), 'form')
    const wrong = await finance.post(page, { form, to: 'yesterday' })
    assert.equal(wrong.status, 400)
    assert.match(wrong.html, /id="to-problem"/)
    assert.match(wrong.html, /value="yesterday"/)
  })

  await t.test('months are listed by their state', async () => {
    const { html } = await finance.open('/console/finance/periods')
    assert.match(html, />under way</)
  })

  await t.test('a chosen moment stays in every link, and is shown', async () => {
    const to = String(beforeOrders)
    const { html } = await lines({ ...wallet, to })
    assert.match(html, /You see the books as of/)
    const trails = [...html.matchAll(/href="(\/console\/trail\/[^"]+)"/g)].map(([, href]) => href!)
    assert.ok(trails.length > 0)
    for (const href of trails) assert.match(href, new RegExp(`\\?to=${to}$`))
    const [, event = ''] = /<caption>[\s\S]*?href="(\/console\/trail\/pos_[^"]+)"/.exec(html) ?? []
    const trail = await finance.open(event)
    assert.match(trail.html, /You see the books as of/)
    const accounts = [...trail.html.matchAll(/href="(\/console\/finance\/account\?[^"]+)"/g)]
    assert.ok(accounts.length > 0)
    for (const [, href = ''] of accounts) assert.match(href, new RegExp(`&amp;to=${to}$`))
    const order = `/console/trail/${orders[0]!.orderId}`
    assert.equal((await finance.get(`${order}?to=${to}`)).status, 404, 'it was not there then')
    assert.equal((await finance.get(`${order}?to=never`)).status, 400)
    const now = await finance.open(order)
    assert.equal(now.status, 200)
    assert.doesNotMatch(now.html, /You see the books as of|[?;]to=/)
    assert.doesNotMatch((await finance.open('/console/finance/balance')).html, /as of <strong>/)
  })

  await t.test('an export equals the output of the command, followed by its lines and digest', async () => {
    const page = '/console/finance/exports'
    const file = join(await dataDirectory(t), 'ledger.csv')
    const until = positionToken(beforeOrders)
    for (const format of ['csv', 'jsonl']) {
      const sent = await finance.get(`${page}/file?${new URLSearchParams({ format, to: until })}`)
      assert.equal(sent.status, 200)
      const command = ['ledger', 'export', '--format', format, '--until', until, '--out', file]
      assert.equal((await operate(command, app.env)).code, 0)
      assert.equal(sent.html, await readFile(file, 'utf8'))
      const { html } = await finance.open(page)
      const [what = '', state, through, events, lineCount, , digest] = rowsOf(html)[1] ?? []
      assert.match(what, new RegExp(`^${format}`))
      assert.deepEqual([state, through], ['complete', until])
      assert.equal(Number(events), beforeOrders)
      assert.equal(Number(lineCount), sent.html.split('\n').length - 1)
      assert.equal(digest, hash('sha256', sent.html, 'hex'))
      assert.match(html, new RegExp(`ledger export --format ${format} --until ${until}`))
    }
    const wrong = new URLSearchParams({ format: 'jsonl', book: 'service', to: 'tomorrow' })
    const refused = await finance.open(`${page}/file?${wrong}`)
    assert.match(refused.html, /id="book-problem"/)
    assert.match(refused.html, /id="to-problem"/)
    assert.match(refused.html, /value="tomorrow"/)
  })
})

test('a month is closed from its page as by the command, once, after a preview of what it moves', async (t) => {
  const app = await testApp(t, { own: 'file' })
  await app.customer({ email: 'gil@example.com', cents: 12_345 })
  const { clock, log } = app.core
  const period = utcCalendar.periodOf(clock())
  const page = `/console/finance/periods/${period}/close`
  const early = await staffBrowser(app, ['finance'])
  const notOver = await early.open(page)
  assert.match(notOver.html, /is not over\. It can be closed from/)
  assert.doesNotMatch(notOver.html, /<button class="first/)
  const typed = hiddenField(await early.open('/console/finance/verifications'), 'form')
  assert.equal((await early.post(page, { form: typed })).status, 409)
  const stream = async () => {
    const types: string[] = []
    for await (const event of log.readStream(periodStream(period))) types.push(event.type)
    return types
  }
  assert.deepEqual(await stream(), [], 'nothing was written')
  app.ahead(utcCalendar.endOfPeriodMs(period) + closingDelayMs + 60_000 - clock())
  const finance = await staffBrowser(app, ['finance'])
  assert.match((await finance.get(page)).to ?? '', /^\/console\/confirm\?/)
  await changeSessions(app, [finance.staffId], `confirmed_until = now() + interval '90 days'`)
  const listed = await finance.open('/console/finance/periods')
  assert.match(listed.html, new RegExp(`href="${page}"`))
  const preview = await finance.open(page)
  assert.match(preview.html, /<h2>Changes</)
  assert.match(preview.html, new RegExp(`name=liabilities&amp;from=${period}-01`))
  assert.deepEqual(await stream(), [], 'looking closes nothing')
  const form = hiddenField(preview, 'form')
  const answers = await Promise.all([1, 2, 3].map(() => finance.post(page, { form })))
  for (const { status, to } of answers) assert.ok(status === 303 && to !== null, `${status}`)
  await until(async () => (await stream()).length === 2, { what: 'the closing' })
  assert.deepEqual(await stream(), ['PeriodCutOff', 'PeriodClosed'])
  const [, closed] = (await log.readStreams([{ stream: periodStream(period), from: 0 }])).get(
    periodStream(period),
  )!
  assert.match(JSON.stringify(closed), new RegExp(`session:?[^}]*${finance.staffId}`))
  await until(async () => /state good">closed/.test((await finance.open('/console/finance/periods')).html), {
    what: 'the list to say so',
  })
  const { out } = await operate(['ledger', 'periods', period, '--json'], {
    ...app.env,
    FAREBOX_CLOCK_OFFSET_MS: String(app.clock.aheadMs),
  })
  const report = await finance.open(`/console/finance/periods/${period}`)
  const { digest } = JSON.parse(closed?.data ?? '{}')
  assert.match(report.html, new RegExp(`${digest}[\\s\\S]*as closed`))
  const file = await finance.get(`/console/finance/periods/${period}/report.csv`)
  assert.equal(hash('sha256', file.html.replace('\ufeff', '').replaceAll('\r', '')), digest)
  assert.equal((await finance.get('/console/finance/periods/2020-01')).status, 404)
  assert.equal((await finance.get('/console/finance')).to, '/console/staff')
  const shown = (await finance.open('/console/finance/periods')).html
  assert.ok(shown.includes(JSON.parse(out).closed.digest), out)
  assert.equal((await finance.get(page)).to, '/console/finance/periods', 'it is closed already')
  for (const none of ['2019-01', 'never', '2026-13'])
    assert.equal((await finance.get(`/console/finance/periods/${none}/close`)).status, 404)
})

test('an export that is no longer read, or that fails, frees its slot', async () => {
  const endless: Exporter = async (sink) => {
    for (;;) await sink.write('x'.repeat(100_000))
  }
  const runs = createExportRuns(async (sink, request) => {
    if (request.format === 'csv') throw new Error('the log cannot be reached')
    return endless(sink, request)
  })
  const start = (format: 'csv' | 'jsonl') => runs.start({ format, book: null, until: null }, 'test', 0)
  const states = () => runs.list().map(({ state }) => state.kind)
  const [one, two] = [start('jsonl'), start('jsonl')]
  assert.ok(one && two)
  assert.equal(start('jsonl'), null, 'as many as may run do')
  for (const file of [one, two]) file.destroy()
  await until(async () => states().every((kind) => kind === 'broke off'), { what: 'their end' })
  const failing = start('csv')
  assert.ok(failing, 'there is a place again')
  await assert.rejects(text(failing), /cannot be reached/)
  assert.ok(start('jsonl')?.destroy() && start('jsonl')?.destroy())
})
