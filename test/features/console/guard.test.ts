import assert from 'node:assert/strict'
import { test } from 'node:test'
import { consolePages } from '../../../src/app/pages.ts'
import { claimStaff, createPeople } from '../../../src/features/sign-in/people.ts'
import { createSessions, newSessionId } from '../../../src/features/sign-in/sessions.ts'
import { consolePath } from '../../../src/platform/ui/cookies.ts'
import type { ConsolePage } from '../../../src/platform/ui/page.ts'
import {
  type Browser,
  changeSessions,
  consoleBrowser,
  consoleOrigin,
  hiddenField,
  letterTo,
  type Page,
  signedIn,
  staffBrowser,
} from '../../support/console.ts'
import { operator } from '../../support/operator.ts'
import { testApp } from '../../support/test-app.ts'

type Opened = { readonly page: ConsolePage; readonly who: string; readonly answer: Page }

/** Whether a role may see a page, by the page's declaration. */
const expected = (page: ConsolePage, who: string): boolean => {
  if (page.for === 'anyone') return true
  if (who === 'guest') return false
  if (page.for === 'person') return true
  return page.for.some((role) => role === who || (role === 'customer' && who === 'reseller'))
}

test('pages and their roles', async (t) => {
  const app = await testApp(t)
  const pages = consolePages(app.farebox.features)

  const customer = await app.customer({ email: 'olga@example.com', cents: 10_000 })
  const shop = await app.customer({ email: 'shop@guard.example', cents: 10_000, reseller: true })
  const visitors: Readonly<Record<string, Browser>> = {
    guest: consoleBrowser(app),
    customer: await signedIn(app, customer.accountId),
    reseller: await signedIn(app, shop.accountId),
    finance: await staffBrowser(app, ['finance']),
    operator: await staffBrowser(app, ['operator']),
  }
  const pathOf = ({ path }: ConsolePage): string => path.replace(/\{\w+\}/g, `ord_${'0'.repeat(32)}`)
  let opened: Promise<readonly Opened[]> | null = null
  /** Each page as each visitor gets it. They are opened once for all tests. */
  const everyPage = (): Promise<readonly Opened[]> => {
    opened ??= (async () => {
      const found: Opened[] = []
      for (const page of pages.filter(({ show }) => show))
        for (const [who, browser] of Object.entries(visitors))
          found.push({ page, who, answer: await browser.get(pathOf(page)) })
      return found
    })()
    return opened
  }

  await t.test('every page is shown to its roles only', async () => {
    assert.ok(pages.length > 20, `${pages.length} pages`)
    for (const { page, who, answer } of await everyPage()) {
      const { status, to } = answer
      const place = `${page.path} as ${who}: ${status} ${to ?? ''}`
      if (expected(page, who)) {
        assert.notEqual(status, 403, place)
        assert.ok(status < 500, place)
        assert.ok(to === null || !to.startsWith('/console/sign-in?'), place)
      } else if (who === 'guest') assert.match(to ?? '', /^\/console\/sign-in\?to=/, place)
      else assert.equal(status, 403, place)
    }
  })

  await t.test('every form is accepted from its roles only', async () => {
    for (const page of pages.filter(({ act, path }) => act && path !== '/console/sign-out'))
      for (const [who, browser] of Object.entries(visitors)) {
        if (expected(page, who)) continue
        const { status, to } = await browser.post(pathOf(page))
        const place = `${page.path} as ${who}: ${status} ${to ?? ''}`
        if (who === 'guest') assert.match(to ?? '', /^\/console\/sign-in\?to=/, place)
        else assert.equal(status, 403, place)
      }
  })

  await t.test('no form is accepted from another site, whatever headers it sends', async () => {
    const browser = visitors.customer!
    const foreign: readonly Readonly<Record<string, string>>[] = [
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site', origin: consoleOrigin(app) },
      { origin: 'https://evil.example' },
      { origin: 'null' },
      { origin: `${consoleOrigin(app)}.evil.example` },
      {},
    ]
    for (const page of pages.filter(({ act }) => act))
      for (const headers of foreign) {
        const { status, html } = await browser.post(pathOf(page), {}, { own: false, headers })
        assert.equal(status, 403, `${page.path} ${JSON.stringify(headers)}`)
        assert.match(html, /This form came from elsewhere/)
      }
    assert.equal((await browser.get('/console')).status, 200, 'no session ended')
  })

  await t.test(
    'every page forbids frames, foreign scripts and caches, and its cookies are bound to this host',
    async () => {
      for (const { page, who, answer } of await everyPage()) {
        const { headers } = answer
        const place = `${page.path} as ${who}`
        const policy = String(headers['content-security-policy'])
        for (const part of [
          "default-src 'none'",
          "frame-ancestors 'none'",
          "script-src 'self'",
          "base-uri 'none'",
          "form-action 'self'",
          "require-trusted-types-for 'script'",
        ])
          assert.ok(policy.includes(part), `${place}: ${policy}`)
        assert.doesNotMatch(policy, /unsafe|\*/, place)
        assert.equal(headers['x-frame-options'], 'DENY', place)
        assert.equal(headers['referrer-policy'], 'same-origin', place)
        assert.equal(headers['x-content-type-options'], 'nosniff', place)
        assert.equal(headers['cache-control'], 'no-store', place)
        for (const line of [headers['set-cookie'] ?? []].flat())
          assert.match(
            line,
            /^__Host-farebox_\w+=[^;]*; Path=\/; Secure; HttpOnly; SameSite=(Lax|Strict)/,
            place,
          )
      }
    },
  )

  await t.test('no redirect leads to another site', async () => {
    const away = [
      '//evil.example',
      'https://evil.example',
      '/\\evil.example',
      '/console//evil.example',
      '/console/../docs',
      '/docs',
      'javascript:alert(1)',
      '/console\nSet-Cookie: a=b',
      '/consoles',
    ]
    for (const to of away) {
      assert.equal(consolePath(to), '/console', to)
      const page = await visitors.customer!.get(`/console/sign-in?${new URLSearchParams({ to })}`)
      assert.equal(page.to, '/console', to)
      const themed = await visitors.customer!.post('/console/theme', { theme: 'dark', to })
      assert.equal(themed.to, '/console', to)
    }
    assert.equal(
      consolePath('/console/orders?status=failed&before=2026-11-21T02:30:00.000Z_ord_1'),
      '/console/orders?status=failed&before=2026-11-21T02:30:00.000Z_ord_1',
    )
  })

  await t.test('another name of this machine is redirected, and an unknown host gets no page', async () => {
    const { port } = new URL(app.baseUrl)
    const elsewhere = await consoleBrowser(app).get('/console/keys?a=1', {
      headers: { host: `127.0.0.1:${port}` },
    })
    assert.equal(elsewhere.status, 307)
    assert.equal(elsewhere.headers.location, `${consoleOrigin(app)}/console/keys?a=1`)
    for (const host of ['evil.example', `evil.example:${port}`, `localhost.evil.example:${port}`]) {
      assert.equal((await visitors.customer!.get('/console', { headers: { host } })).status, 421)
      assert.equal(
        (await visitors.customer!.post('/console/sign-out', {}, { headers: { host } })).status,
        421,
      )
    }
  })

  await t.test('resources of another account are not found', async () => {
    const order = await app.buyer.post(
      '/api/v1/orders',
      { product_id: 'residential-premium', quantity: 1 },
      { key: customer.key, headers: { 'Idempotency-Key': 'foreign' } },
    )
    const keys = await app.accounts.read(customer.accountId, operator)
    const [keyId] = [...keys!.keys.keys()]
    const reseller = visitors.reseller!
    for (const path of [
      `/console/orders/${order.body.orderId}`,
      ...['', '/cap', '/roll', '/revoke'].map((end) => `/console/keys/${keyId}${end}`),
    ]) {
      assert.equal((await visitors.customer!.get(path)).status, 200, path)
      assert.equal((await reseller.get(path)).status, 404, path)
      if (path.includes('/keys/') && !path.endsWith(keyId!)) {
        const form = hiddenField(await reseller.get('/console/keys/new'), 'form')
        assert.equal((await reseller.post(path, { cap: '1', overlap: '0', form })).status, 404, path)
      }
    }
    const after = await app.accounts.read(customer.accountId, operator)
    assert.deepEqual(after!.keys.toJS(), keys!.keys.toJS())
  })

  await t.test('a form that is sent twice, also simultaneously, takes effect once', async () => {
    const browser = visitors.customer!
    const count = async () => (await app.accounts.read(customer.accountId, operator))!.keys.size
    const before = await count()
    const form = hiddenField(await browser.get('/console/keys/new'), 'form')
    const sent = { form, scopes: 'buy', name: 'twice', covers: 'orders' }
    const answers = await Promise.all([1, 2, 3].map(() => browser.post('/console/keys/new', sent)))
    assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 303, 303])
    assert.equal(await count(), before + 1)
    assert.equal(
      (await browser.post('/console/keys/new', { scopes: 'buy', covers: 'orders' })).status,
      303,
      'a form without its key',
    )
    assert.equal(await count(), before + 1)
  })

  await t.test(
    'an action that needs confirmation is refused without it; a recent sign-in is enough',
    async () => {
      const account = await app.customer({ email: 'pia@guard.example', cents: 10_000, reseller: true })
      const browser = await signedIn(app, account.accountId)
      const staff = await staffBrowser(app, ['finance', 'operator'])
      const confirmed = pages.filter((page) => page.confirmed)
      const whose = (page: ConsolePage): Browser => (expected(page, 'reseller') ? browser : staff)
      assert.ok(confirmed.some((page) => whose(page) === staff))
      for (const page of confirmed) {
        const { status, to } = await whose(page).get(pathOf(page))
        assert.notEqual(status, 403, page.path)
        assert.doesNotMatch(to ?? '', /confirm/, page.path)
      }
      await changeSessions(
        app,
        [account.accountId, staff.staffId],
        `confirmed_until = now() - interval '1 hour'`,
      )
      for (const page of confirmed) {
        assert.match((await whose(page).get(pathOf(page))).to ?? '', /^\/console\/confirm\?/, page.path)
        if (page.act)
          assert.match((await whose(page).post(pathOf(page))).to ?? '', /^\/console\/confirm\?/, page.path)
      }
      // Confirmed for one act, it holds for that one alone.
      await changeSessions(
        app,
        [account.accountId],
        `confirmed_until = now() + interval '5 minutes', confirmed_act = '/console/keys/new'`,
      )
      assert.equal((await browser.get('/console/keys/new')).status, 200)
      assert.match((await browser.get('/console/passkeys')).to ?? '', /^\/console\/confirm\?/)
    },
  )

  await t.test("a code by mail confirms an action once, and changes the session's secret", async () => {
    const account = await app.customer({ email: 'quin@example.com', cents: 10_000 })
    const browser = await signedIn(app, account.accountId)
    const old = browser.cookies.get('__Host-farebox_session')
    await changeSessions(app, [account.accountId], `confirmed_until = null`)
    const input = { act: '/console/keys/new', to: '/console/keys/new' }
    await browser.post('/console/confirm', { ...input, do: 'mail' })
    const code = /(\d{4} \d{4})/.exec((await letterTo(app, account.email)).text)?.[1] ?? ''
    assert.equal(
      (await browser.post('/console/confirm', { ...input, act: '/console/passkeys', do: 'code', code }))
        .status,
      400,
    )
    assert.equal(
      (await browser.post('/console/confirm', { ...input, do: 'code', code })).to,
      '/console/keys/new',
    )
    assert.notEqual(browser.cookies.get('__Host-farebox_session'), old)
    assert.equal((await browser.get('/console/keys/new')).status, 200)
    assert.equal((await browser.post('/console/confirm', { ...input, do: 'code', code })).status, 400)
  })

  await t.test('a blocked account reads and changes nothing, but can end its keys and sessions', async () => {
    const account = await app.customer({ email: 'rex@example.com', cents: 10_000 })
    const browser = await signedIn(app, account.accountId)
    const { accounts } = app
    const form = hiddenField(await browser.get('/console/keys/new'), 'form')
    await accounts.block(account.accountId, 'test', operator)
    assert.equal((await browser.get('/console')).status, 200)
    assert.equal((await browser.post('/console/keys/new', { form, scopes: 'buy' })).status, 403)
    const [keyId] = [...(await accounts.read(account.accountId, operator))!.keys.keys()]
    assert.equal((await browser.post(`/console/keys/${keyId}/revoke`)).to, '/console/keys')
    assert.equal((await accounts.read(account.accountId, operator))!.keys.get(keyId!)!.revoked, true)
  })

  await t.test('a removed role ends its access, from the next page on', async () => {
    const { core } = app
    const member = await claimStaff(core.pool, 'sam@staff.example')
    const { staffId } = member
    const people = createPeople(core)
    await people.grant(member, 'operator', operator)
    const session = { subjectId: staffId, sessionId: newSessionId(staffId), method: 'passkey' } as const
    await people.signIn(session, operator)
    const opened = await createSessions(core).open(session, { userAgent: 'test', address: '127.0.0.1' })
    const browser = consoleBrowser(app)
    browser.cookies.set('__Host-farebox_session', opened.secret)
    assert.equal((await browser.get('/console/staff')).status, 200)
    await people.revokeRole(staffId, 'operator', operator)
    assert.equal((await browser.get('/console/staff')).status, 303)
  })

  await t.test('viewing an account changes nothing in it, and the log records the viewer', async () => {
    const browser = visitors.operator!
    await browser.post('/console/view', { account: customer.email, reason: 'a question' })
    const seen = await browser.get('/console/keys')
    assert.equal(seen.status, 200)
    assert.match(seen.html, /as it sees them/)
    const before = (await app.accounts.read(customer.accountId, operator))!.keys.toJS()
    for (const page of pages.filter(({ act, ofAccount }) => act && ofAccount)) {
      const answer = await browser.post(pathOf(page), { read: 'all', scopes: 'buy' })
      assert.equal(answer.status, 403, page.path)
    }
    assert.deepEqual((await app.accounts.read(customer.accountId, operator))!.keys.toJS(), before)
    const { pool } = app.core
    const { rows } = await pool.query(
      `select viewing_account_id as viewing, subject_id as staff from vault.console_sessions where viewing_account_id is not null`,
    )
    assert.equal(rows.length, 1)
    const events: { type: string; data: string }[] = []
    for await (const event of app.core.log.readStream(`console-${rows[0].staff}` as never)) events.push(event)
    const viewed = events.filter(({ type }) => type === 'AccountViewed').map(({ data }) => JSON.parse(data))
    assert.deepEqual(
      viewed.map(({ accountId, reason }) => [accountId, reason]),
      [[customer.accountId, 'a question']],
    )
    assert.equal((await browser.post('/console/view/stop')).to, '/console/staff')
    assert.equal((await browser.get('/console/keys')).status, 403)
  })
})
