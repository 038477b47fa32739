import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lifetimes } from '../../../src/domain/staff/lifetimes.ts'
import {
  consoleBrowser,
  hiddenField,
  letterTo,
  linkIn,
  pressLink,
  printedLink,
  signedIn,
} from '../../support/console.ts'
import { testApp } from '../../support/test-app.ts'

const sessionCookie = '__Host-farebox_session'
const askingCookie = '__Host-farebox_asking'
const codeOf = (text: string): string => /(\d{4} \d{4})/.exec(text)?.[1] ?? ''

test('signing in', async (t) => {
  const app = await testApp(t, { own: true })

  await t.test(
    'an e-mailed link opens a session in the browser that requested it, after a click on its button',
    async () => {
      const { email } = await app.customer({ email: 'ann@example.com', cents: 10_000 })
      const browser = consoleBrowser(app)
      // The page that was wanted first is the one that comes after.
      const to = hiddenField(await browser.open('/console/orders?limit=5'), 'to')
      const sent = await browser.post('/console/sign-in', { email: 'ANN@example.com', to })
      assert.equal(sent.to, '/console/sign-in/sent')
      const link = linkIn(await letterTo(app, 'ann@example.com'))
      // Mail scanners open the link first, several times; opening uses nothing up.
      for (let looks = 0; looks < 3; looks += 1)
        assert.equal((await consoleBrowser(app).get(link)).status, 200)
      assert.equal((await browser.get(link)).status, 200)
      assert.equal(browser.cookies.has(sessionCookie), false)
      assert.equal((await pressLink(browser, link)).to, '/console/orders?limit=5')
      const page = await browser.open('/console')
      assert.match(page.html, /<h1>Home<\/h1>/)
      assert.match(page.html, new RegExp(email))
      assert.equal((await pressLink(browser, link)).status, 409, 'a link is good once')
    },
  )

  await t.test(
    'opened in another browser it shows a code, which the first browser accepts once',
    async () => {
      await app.customer({ email: 'bob@example.com', cents: 10_000 })
      const asking = consoleBrowser(app)
      await asking.post('/console/sign-in', { email: 'bob@example.com', to: '/console/plans' })
      const link = linkIn(await letterTo(app, 'bob@example.com'))
      const phone = consoleBrowser(app)
      const shown = await pressLink(phone, link)
      const code = codeOf(shown.html)
      assert.match(code, /^\d{4} \d{4}$/)
      assert.equal(phone.cookies.has(sessionCookie), false, 'the other browser is not signed in')
      // The code is worth nothing elsewhere.
      assert.equal((await phone.post('/console/sign-in/sent', { code })).status, 400)
      assert.equal((await asking.post('/console/sign-in/sent', { code: '0000 0000' })).status, 400)
      assert.equal((await asking.post('/console/sign-in/sent', { code })).to, '/console/plans')
      assert.equal((await asking.open('/console')).status, 200)
      const again = consoleBrowser(app)
      again.cookies.set(askingCookie, 'A'.repeat(43))
      assert.equal((await again.post('/console/sign-in/sent', { code })).status, 400)
    },
  )

  await t.test('five wrong codes end the link', async () => {
    await app.customer({ email: 'cid@example.com', cents: 10_000 })
    const asking = consoleBrowser(app)
    await asking.post('/console/sign-in', { email: 'cid@example.com' })
    const shown = await pressLink(consoleBrowser(app), linkIn(await letterTo(app, 'cid@example.com')))
    const code = codeOf(shown.html)
    const wrong = code.startsWith('1') ? '2000 0000' : '1000 0000'
    for (let tries = 0; tries < 5; tries += 1)
      assert.equal((await asking.post('/console/sign-in/sent', { code: wrong })).status, 400)
    assert.equal((await asking.post('/console/sign-in/sent', { code })).status, 400)
  })

  await t.test('an unknown address gets the same answer, and no e-mail', async () => {
    const { email } = await app.customer({ email: 'dee@example.com', cents: 10_000 })
    const known = await consoleBrowser(app).post('/console/sign-in', { email })
    const unknown = await consoleBrowser(app).post('/console/sign-in', { email: 'unknown@example.com' })
    const plain = ({
      headers: { 'set-cookie': cookies, 'x-request-id': _, date: _d, ...rest },
      html,
      status,
    }: typeof known) => ({
      status,
      html,
      ...rest,
      cookies: String(cookies).replaceAll(/[\w-]{43}/g, 'secret'),
    })
    assert.deepEqual(plain(unknown), plain(known))
    const letter = await letterTo(app, email)
    const { letters } = (await (await fetch(`${app.demo.sandbox}/_sandbox/mail`)).json()) as {
      letters: readonly { to: readonly string[] }[]
    }
    assert.ok(letter)
    assert.equal(
      letters.some(({ to }) => to.includes('unknown@example.com')),
      false,
    )
  })

  await t.test('an e-mail goes to the stored address, not to one with the same folded form', async () => {
    await app.customer({ email: 'mike@example.com', cents: 10_000 })
    // The Kelvin sign is no k, and lower-cased it is one.
    await consoleBrowser(app).post('/console/sign-in', { email: 'mi\u212ae@example.com' })
    await consoleBrowser(app).post('/console/sign-in', { email: 'MIKE@EXAMPLE.COM' })
    await letterTo(app, 'mike@example.com')
    const { letters } = (await (await fetch(`${app.demo.sandbox}/_sandbox/mail`)).json()) as {
      letters: readonly { to: readonly string[] }[]
    }
    const written = letters.flatMap(({ to }) => to).filter((to) => /^mi.e@/i.test(to))
    assert.deepEqual([...new Set(written)], ['mike@example.com'])
  })

  await t.test("a link requested by another person does not end one's own link", async () => {
    const { email } = await app.customer({ email: 'eve@example.com', cents: 10_000 })
    const browser = consoleBrowser(app)
    await browser.post('/console/sign-in', { email })
    const first = await letterTo(app, email)
    await consoleBrowser(app).post('/console/sign-in', { email })
    await letterTo(app, email, first.number)
    assert.equal((await pressLink(browser, linkIn(first))).to, '/console')
  })

  await t.test(
    'after two requests the first e-mail to arrive can be used; both end after ten minutes',
    async () => {
      const { email } = await app.customer({ email: 'eva@example.com', cents: 10_000 })
      const browser = consoleBrowser(app)
      await browser.post('/console/sign-in', { email })
      const first = await letterTo(app, email)
      await browser.post('/console/sign-in', { email })
      const second = await letterTo(app, email, first.number)
      assert.equal((await pressLink(browser, linkIn(first))).to, '/console')
      assert.equal((await pressLink(browser, linkIn(second))).status, 409, 'the browser is signed in')
      const late = consoleBrowser(app)
      await late.post('/console/sign-in', { email })
      const third = await letterTo(app, email, second.number)
      app.wait(11 * 60_000)
      assert.equal((await pressLink(late, linkIn(third))).status, 409)
    },
  )

  await t.test('a link of the command line signs in any browser, once', async () => {
    const { accountId } = await app.customer({ email: 'fay@example.com', cents: 10_000 })
    const link = await printedLink(app, accountId)
    assert.equal((await pressLink(consoleBrowser(app), link)).to, '/console')
    assert.equal((await pressLink(consoleBrowser(app), link)).status, 409)
  })

  await t.test('a session id that was set before sign-in is replaced', async () => {
    const { accountId } = await app.customer({ email: 'gus@example.com', cents: 10_000 })
    const attacker = await signedIn(
      app,
      (await app.customer({ email: 'mal@example.com', cents: 10_000 })).accountId,
    )
    const planted = attacker.cookies.get(sessionCookie)!
    const victim = consoleBrowser(app)
    victim.cookies.set(sessionCookie, planted)
    await pressLink(victim, await printedLink(app, accountId))
    assert.notEqual(victim.cookies.get(sessionCookie), planted)
    // The session set before ended with the sign-in.
    assert.equal((await attacker.get('/console')).to, '/console/sign-in?to=%2Fconsole')
    assert.match((await victim.open('/console')).html, /gus@example\.com/)
  })

  await t.test('a session ends after twelve hours without use, and after thirty days of use', async () => {
    const { accountId } = await app.customer({ email: 'hal@example.com', cents: 10_000 })
    const idle = await signedIn(app, accountId)
    app.wait(lifetimes.account.idleMs - 120_000)
    assert.equal((await idle.get('/console')).status, 200)
    app.wait(lifetimes.account.idleMs + 1)
    assert.equal((await idle.get('/console')).status, 303)
    const used = await signedIn(app, accountId)
    for (let days = 0; days < 60; days += 1) {
      app.wait(11 * 3_600_000)
      await used.get('/console/sessions')
    }
    assert.equal((await used.get('/console')).status, 200)
    app.wait(4 * 86_400_000)
    assert.equal((await used.get('/console')).status, 303)
  })

  await t.test(
    'sessions are listed and ended one by one or all at once; another account cannot end them',
    async () => {
      const { accountId } = await app.customer({ email: 'ida@example.com', cents: 10_000 })
      const [one, two, three] = [
        await signedIn(app, accountId),
        await signedIn(app, accountId),
        await signedIn(app, accountId),
      ]
      const otherBrowser = await signedIn(
        app,
        (await app.customer({ email: 'jon@example.com', cents: 10_000 })).accountId,
      )
      const { html } = await one.get('/console/sessions')
      const ids = [...html.matchAll(/name="end" value="(ses_[0-9a-f]+)"/g)].map(([, id = '']) => id)
      assert.equal(ids.length, 3)
      await otherBrowser.post('/console/sessions', { end: ids[0]! })
      assert.equal((await three.get('/console')).status, 200)
      // The newest one is first.
      await one.post('/console/sessions', { end: ids[0]! })
      assert.equal((await three.get('/console')).status, 303)
      await one.post('/console/sessions', { end: 'others' })
      assert.equal((await two.get('/console')).status, 303)
      assert.equal((await one.get('/console')).status, 200)
      await one.post('/console/sign-out')
      assert.equal(one.cookies.has(sessionCookie), false)
      assert.equal((await one.get('/console')).status, 303)
    },
  )

  await t.test(
    'the log has the session and the sign-in method of each action; secrets are stored only as hashes',
    async () => {
      const { accountId } = await app.customer({ email: 'kim@example.com', cents: 10_000 })
      const browser = await signedIn(app, accountId)
      const { pool, log } = app.core
      const events: { type: string; metadata: string }[] = []
      for await (const event of log.readStream(`console-${accountId}` as never)) events.push(event)
      assert.deepEqual(
        events.map(({ type }) => type),
        ['SignedIn'],
      )
      const { actor } = JSON.parse(events[0]!.metadata) as { actor: Record<string, string> }
      assert.equal(actor.kind, 'session')
      assert.equal(actor.subjectId, accountId)
      assert.equal(actor.method, 'cli-link')
      const secret = browser.cookies.get(sessionCookie)!
      const { rows } = await pool.query<{ text: string }>(
        `select s::text as text from vault.console_sessions s where subject_id = $1::text`,
        [accountId],
      )
      assert.equal(rows.length, 1)
      assert.equal(rows[0]!.text.includes(secret), false)
    },
  )

  await t.test('an invalid form keeps the input', async () => {
    const page = await consoleBrowser(app).post('/console/sign-in', { email: '"><script>x' })
    assert.equal(page.status, 400)
    assert.match(page.html, /value="&quot;&gt;&lt;script&gt;x"/)
    assert.match(page.html, /id="email-problem"/)
    assert.equal(hiddenField(page, 'to'), '/console')
  })
})

test('requests from one source never block another source, also behind a trusted proxy', async (t) => {
  const app = await testApp(t, {
    own: true,
    settings: { FAREBOX_RATE_LIMIT: 'on', FAREBOX_TRUSTED_PROXY: '127.0.0.1' },
  })
  const askFrom = async (address: string) => {
    const headers = { 'x-forwarded-for': `198.51.100.99, ${address}` }
    return (await consoleBrowser(app).post('/console/sign-in', { email: 'lea@example.com' }, { headers }))
      .status
  }
  const statuses: number[] = []
  for (let attempt = 0; attempt < 6; attempt += 1) statuses.push(await askFrom('203.0.113.7'))
  assert.deepEqual(statuses, [303, 303, 303, 303, 303, 429])
  assert.equal(await askFrom('198.51.100.1'), 303)
})
