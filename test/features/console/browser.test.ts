import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { verificationsAfter } from '../../../src/audit/verification-runs.ts'
import { asCustomer } from '../../support/app-actions.ts'
import { launchBrowser, openPage, pictureOf, type Visit } from '../../support/browser.ts'
import {
  changeSessions,
  consoleOrigin,
  hiddenField,
  letterTo,
  linkIn,
  printedLink,
  sendBatch,
  signedIn,
  staffBrowser,
} from '../../support/console.ts'
import { limitAlone } from '../../support/four-eyes.ts'
import { operate, operator } from '../../support/operator.ts'
import { type TestApp, testApp } from '../../support/test-app.ts'
import { record } from '../free-list/support/recorded.ts'
import { storeUse } from '../traffic-budgets/use.ts'

const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** A folder for pictures of each page, for people. */
const pictures = process.env.FAREBOX_TEST_PICTURES
if (pictures) mkdirSync(pictures, { recursive: true })

type Found = { readonly id: string; readonly nodes: readonly { readonly html: string }[] }

const findViolations = `${axe}
axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa', 'best-practice'] }).then(({ violations }) => violations)`

/**
 * The findings of axe for a page, by WCAG 2.2 AA. The protocol of the browser runs it, because the policy of the page
 * excludes other scripts.
 */
const violations = async (page: Page): Promise<readonly string[]> => {
  const session = await page.context().newCDPSession(page)
  const { result, exceptionDetails } = await session.send('Runtime.evaluate', {
    expression: findViolations,
    awaitPromise: true,
    returnByValue: true,
  })
  await session.detach()
  assert.equal(exceptionDetails, undefined)
  return (result.value as readonly Found[]).map(
    ({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 160)).join(' | ')}`,
  )
}

const signIn = async (app: TestApp, { page }: Visit, subjectId: string): Promise<void> => {
  await page.goto(`${consoleOrigin(app)}${await printedLink(app, subjectId)}`)
  await page.getByRole('button', { name: 'Sign in' }).click()
}

/** A world with content on every page. */
const filledAccount = async (app: TestApp) => {
  const account = await app.customer({ email: 'nora@example.com', cents: 50_000 })
  const order = (body: object, key: string) =>
    app.buyer.post('/api/v1/orders', body, { key: account.key, headers: { 'Idempotency-Key': key } })
  const plan = await order({ product_id: 'residential-premium', quantity: 5 }, 'one')
  const isp = { country: 'USA', period_days: 30 }
  const rented = await order({ product_id: 'isp-static', quantity: 2, fulfillment_meta: isp }, 'two')
  await order({ product_id: 'residential-premium', quantity: 2, method: 'card' }, 'three')
  await operate(
    ['notices', 'publish', '--kind', 'INFO', '--title', 'Maintenance', '--body', 'Ten minutes.'],
    app.env,
  )
  const deposit = await app.openDeposit(account.key, { amount_cents: 2_500 })
  await app.act(deposit.deposit_id, 'pay', 2_500)
  await app.untilDeposit(account.key, deposit.deposit_id, { status: 'paid' })
  const hook = await app.buyer.post(
    '/api/v1/webhooks',
    { url: 'https://example.com/hooks' },
    { key: account.key },
  )
  const subscribed = await app.buyer.post(
    '/api/v1/subscriptions',
    { product_id: 'residential-premium', quantity: 2, interval: 'month' },
    { key: account.key, headers: { 'Idempotency-Key': 'subscribe' } },
  )
  const budget = await app.buyer.call('PUT', '/api/v1/traffic-budgets', {
    key: account.key,
    json: { planId: plan.body.planId, period: 'week', timeZone: 'Europe/Berlin', limitBytes: 2_000_000_000 },
  })
  await storeUse(app.core.pool, {
    budgetId: budget.body.id,
    countedFromMs: Date.parse(budget.body.countedFrom),
    // Below 80 %: above it an e-mail would follow, among those of the sign-in.
    usedBytes: 1_500_000_000,
    limitBytes: budget.body.limitBytes,
  })
  await record(app.core.pool, [{ ip: '8.8.8.8', port: 3128 }])
  return {
    ...account,
    orderId: plan.body.orderId as string,
    planId: plan.body.planId as string,
    budgetId: budget.body.id as string,
    proxyId: rented.body.proxyIds[0] as string,
    rentedId: rented.body.orderId as string,
    depositId: deposit.deposit_id as string,
    webhookId: hook.body.id as string,
    subscriptionId: subscribed.body.subscriptionId as string,
    batchId: await sendBatch(app, account.accountId, [{ subreddit: 'node' }, { subreddit: 'news' }]),
  }
}

type Filled = Awaited<ReturnType<typeof filledAccount>>

const pathsOf = ({
  orderId,
  planId,
  budgetId,
  proxyId,
  rentedId,
  webhookId,
  subscriptionId,
  batchId,
}: Filled): readonly string[] => [
  '/console',
  '/console/orders',
  `/console/orders/${orderId}`,
  `/console/orders/${orderId}/cancel`,
  '/console/plans',
  `/console/plans/${planId}`,
  `/console/plans/${planId}/lines?country=us`,
  `/console/plans/${planId}/whitelist`,
  `/console/plans/${planId}/top-up?quantity=3`,
  `/console/plans/${planId}/traffic`,
  '/console/traffic-budgets',
  '/console/traffic-budgets/new',
  `/console/traffic-budgets/new?plan=${planId}`,
  `/console/traffic-budgets/${budgetId}`,
  `/console/traffic-budgets/${budgetId}/reset`,
  `/console/traffic-budgets/${budgetId}/remove`,
  '/console/catalogue',
  '/console/catalogue/residential-premium',
  '/console/catalogue/mobile-dedicated?quantity=2',
  '/console/top-up',
  '/console/addresses',
  `/console/addresses/${proxyId}`,
  `/console/addresses/${proxyId}/replace`,
  `/console/orders/${rentedId}/extend`,
  '/console/subscriptions',
  `/console/subscriptions/${subscriptionId}`,
  '/console/transactions',
  '/console/low-balance',
  '/console/auto-topup',
  '/console/keys',
  '/console/keys/new',
  '/console/scrapers',
  '/console/scrapers/reddit/subreddit',
  '/console/scrapers/usage',
  '/console/scrapers/batches',
  `/console/scrapers/batches/${batchId}`,
  '/console/webhooks',
  '/console/webhooks/new',
  `/console/webhooks/${webhookId}`,
  '/console/notices',
  '/',
  '/status',
  '/prices',
  '/prices/residential-premium',
  '/prices/mobile-dedicated',
  '/free-proxies',
  '/networks',
  '/networks/AS15169',
  '/ip-lookup?ip=8.8.8.8',
  '/proxy-checker',
  '/console/sessions',
  '/console/passkeys',
  '/console/times',
  '/console/sign-in/sent',
]

/** Pages of staff, about the same account. */
const staffPathsOf = ({
  accountId,
  orderId,
  depositId,
  runId,
  proposal,
}: {
  readonly accountId: string
  readonly orderId: string
  readonly depositId: string
  /** Of a verification. */
  readonly runId: string
  /** The page of one. */
  readonly proposal: string
}): readonly string[] => [
  '/console/staff',
  '/console/operator/orders',
  '/console/operator/deposits',
  '/console/operator/reversals',
  '/console/operator/webhooks',
  '/console/finance/money',
  '/console/finance/balance',
  '/console/finance/balance?from=2020-01-01&depth=1',
  `/console/finance/account?name=${accountId}`,
  '/console/finance/account?name=nothing',
  '/console/finance/manual-entries',
  '/console/finance/deferred-revenue',
  '/console/finance/periods',
  `/console/finance/periods/${new Date().toISOString().slice(0, 7)}/close`,
  '/console/finance/replay',
  '/console/finance/verifications',
  `/console/finance/verifications/${runId}`,
  '/console/finance/exports?format=beancount&to=never',
  `/console/finance/account?name=${accountId}&to=2020-01-01`,
  '/console/finance/seals',
  '/console/search?q=nothing',
  '/console/operator/accounts',
  `/console/operator/accounts/${accountId}`,
  `/console/operator/accounts/${accountId}/block`,
  `/console/operator/accounts/${accountId}/credit`,
  `/console/operator/orders/${orderId}`,
  `/console/operator/orders/${orderId}/refund`,
  `/console/operator/deposits/${depositId}`,
  `/console/operator/deposits/${depositId}/refund`,
  `/console/operator/deposits/${depositId}/refund/confirm?amount=1&reason=ticket`,
  `/console/trail/${orderId}`,
  '/console/operator/catalogue',
  '/console/operator/stock',
  '/console/operator/stock/add',
  '/console/operator/exits',
  '/console/operator/gateways',
  '/console/operator/gateways/sandbox-stripe',
  '/console/operator/unmatched',
  '/console/operator/proposals',
  proposal,
  `${proposal}/approve`,
  `${proposal}/close`,
  '/console/operator/notices',
  '/console/operator/notices/new',
  '/console/operator/queues',
  '/console/operator/queues/webhooks',
  '/console/operator/projections',
  '/console/operator/projections/hot',
  '/console/operator/settings',
]

const resellerPathsOf = ({ customerId }: { readonly customerId: string }): readonly string[] => [
  '/console',
  '/console/reseller/margins',
  '/console/reseller/customers',
  `/console/reseller/customers/${customerId}`,
  '/console/traffic-budgets/new',
  `/console/traffic-budgets/new?customer=${customerId}`,
  '/console/traffic-budgets',
  '/console/reseller/statement',
  '/console/reseller/terms',
  '/console/reseller/markup',
  '/console/reseller/price',
  '/console/reseller/movement',
  '/console/reseller/shop',
  '/console/reseller/gateways',
  '/console/reseller/gateways/card',
  '/console/reseller/gateways/crypto/set/btcpay',
]

/** A reseller who sold something and took a part of it back. */
const filledReseller = async (app: TestApp) => {
  const shop = await app.newReseller(500_000)
  const customerId = await shop.pay('alice-17', 50_000)
  await shop.pay('bob', 20_000)
  await shop.order('alice-17', { product_id: 'residential-premium', quantity: 3 })
  const budget = { period: 'month', limitBytes: 50_000_000_000 }
  await shop.client.call('PUT', '/api/v1/traffic-budgets', { json: budget, headers: asCustomer('alice-17') })
  const { body } = await shop.order('bob', { product_id: 'residential-premium', quantity: 2 })
  await app.refund(body.orderId)
  await app.resellers.setGateway(shop.accountId, 'card', { provider: 'stripe', sandbox: true }, operator)
  const visitor = await signedIn(app, shop.accountId)
  // The tests that use this visit may start more than five minutes after the sign-in.
  await changeSessions(app, [shop.accountId], `confirmed_until = now() + interval '1 hour'`)
  return { customerId, ...visitor }
}

/**
 * A credit that waits for a second operator, as its page. From then on more than $100 needs two operators.
 */
const proposedCredit = async (app: TestApp, accountId: string): Promise<string> => {
  await limitAlone(app.core.log, 10_000)
  const other = await staffBrowser(app, ['operator'])
  const path = `/console/operator/accounts/${accountId}/credit`
  const form = hiddenField(await other.get(path), 'form')
  const { to } = await other.post(path, { form, amount: '250', kind: 'goodwill', reference: 'of November' })
  assert.match(to ?? '', /^\/console\/operator\/proposals\/prp_/)
  return to!
}

/** A name of a file for the picture of a page. */
const pictureName = (path: string): string =>
  path
    .replaceAll(/[a-z]{3}_[0-9a-f]{32}/g, 'one')
    .slice(1)
    .replaceAll(/[^a-z0-9]+/g, '-')

const looks: readonly { readonly name: string; readonly options: BrowserContextOptions }[] = [
  { name: 'light-wide', options: { colorScheme: 'light', viewport: { width: 1280, height: 800 } } },
  { name: 'dark-phone', options: { colorScheme: 'dark', viewport: { width: 360, height: 740 } } },
]

test('the console in a browser', async (t) => {
  const app = await testApp(t, { own: true })
  const browser: Browser = await launchBrowser(t)
  const account = await filledAccount(app)
  const staff = await staffBrowser(app, ['finance', 'operator'])
  const reseller = await filledReseller(app)
  // Orders of these accounts may complete after the seal.
  for (const command of [['seal'], ['verify', '--max-unsealed', '100']]) {
    const { code, err } = await operate(['ledger', ...command], app.env)
    assert.equal(code, 0, err)
  }
  const [verified] = await verificationsAfter(app.core.pool, { after: null, limit: 1 })
  const runId = verified?.runId ?? ''
  const proposal = await proposedCredit(app, account.accountId)
  const origin = consoleOrigin(app)
  const become = async (
    { context }: Visit,
    person: { readonly cookies: ReadonlyMap<string, string> },
  ): Promise<void> => {
    await context.clearCookies()
    await context.addCookies(
      [...person.cookies].map(([cookie, value]) => ({
        name: cookie,
        value,
        domain: 'localhost',
        path: '/',
        secure: true,
      })),
    )
  }

  for (const { name, options } of looks)
    await t.test(`every page passes the page checks: ${name}`, async () => {
      const visit = await openPage(browser, options)
      const { page, context, complaints } = visit
      await page.goto(`${origin}/console/sign-in`)
      assert.deepEqual(await violations(page), [])
      if (pictures) await writeFile(join(pictures, `sign-in-${name}.png`), await pictureOf(page))
      await signIn(app, visit, account.accountId)
      const see = async (paths: readonly string[]): Promise<void> => {
        for (const path of paths) {
          await page.goto(`${origin}${path}`)
          assert.deepEqual(await violations(page), [], path)
          const wide = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
          assert.ok(Number(wide) <= 0, `${path} is ${wide} px wider than the window`)
          if (pictures)
            await writeFile(join(pictures, `${pictureName(path)}-${name}.png`), await pictureOf(page))
        }
      }
      await see(pathsOf(account))
      await become(visit, reseller)
      await see(resellerPathsOf(reseller))
      await become(visit, staff)
      await see(staffPathsOf({ ...account, runId, proposal }))
      assert.deepEqual(complaints, [])
      await context.close()
    })

  await t.test('a quote follows the input, and the order equals the quote', async () => {
    const visit = await openPage(browser)
    const { page, context, complaints } = visit
    await signIn(app, visit, account.accountId)
    await page.goto(`${origin}/console/catalogue/isp-static?quantity=1`)
    const price = page.locator('#live-quote .figure')
    const first = await price.textContent()
    await page.getByLabel('Quantity').fill('3')
    await page.getByText('3 IP,').waitFor()
    assert.notEqual(await price.textContent(), first)
    await page.getByLabel('Country').selectOption('DEU')
    await page.locator('#live-quote').getByText('Germany').waitFor()
    const quoted = (await price.textContent()) ?? ''
    await page.getByRole('button', { name: `Buy for ${quoted}` }).click()
    await page.getByText('Ordered.').waitFor()
    await page.locator('dl').getByText(quoted, { exact: true }).waitFor()
    assert.deepEqual(complaints, [])
    await context.close()
  })

  await t.test('without script a customer signs in by mail, creates a key and sees it once', async () => {
    const visit = await openPage(browser, { javaScriptEnabled: false })
    const { page, context } = visit
    await page.goto(`${origin}/console/keys`)
    assert.match(page.url(), /\/console\/sign-in\?to=/)
    await page.getByLabel('E-mail').fill(account.email)
    await page.getByRole('button', { name: 'Send me a link' }).click()
    await page.goto(`${origin}${linkIn(await letterTo(app, account.email))}`)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('link', { name: 'API keys' }).click()
    await page.getByRole('link', { name: 'Create API key' }).click()
    await page.getByLabel('Daily cap, USD').fill('fifty')
    await page.getByRole('button', { name: 'Create API key' }).click()
    assert.equal(await page.getByLabel('Daily cap, USD').inputValue(), 'fifty')
    await page.getByLabel('Daily cap, USD').fill('50.25')
    await page.getByLabel('Name').fill('<b>shop</b>')
    await page.getByRole('button', { name: 'Create API key' }).click()
    const key = (await page.locator('.secret').textContent()) ?? ''
    const me = await app.buyer.get('/api/v1/me', { key })
    assert.equal(me.body.dailySpendCapCents, 5025)
    await page.goto(`${origin}/console/keys`)
    assert.equal((await page.content()).includes(key), false)
    assert.equal(await page.getByRole('link', { name: '<b>shop</b>' }).count(), 1)
    await context.close()
  })

  await t.test('without script every page explains itself, and every button belongs to a form', async () => {
    const visit = await openPage(browser, { javaScriptEnabled: false })
    const { page, context } = visit
    const see = async (paths: readonly string[]): Promise<void> => {
      for (const path of paths) {
        const answer = await page.goto(`${origin}${path}`, { waitUntil: 'domcontentloaded' })
        assert.equal(answer?.status(), 200, path)
        assert.equal(new URL(page.url()).pathname, path.split('?')[0], path)
        const title = await page.locator('main h1').innerText()
        const content = await page.locator('main').innerText()
        assert.ok(content.length > title.length + 20, `${path}: ${content}`)
        assert.equal(await page.locator('main button:visible:not(form button)').count(), 0, path)
        assert.equal(await page.locator('main [aria-busy]:visible').count(), 0, path)
      }
    }
    await signIn(app, visit, account.accountId)
    await see(pathsOf(account))
    await become(visit, reseller)
    await see(resellerPathsOf(reseller))
    await become(visit, staff)
    await see(staffPathsOf({ ...account, runId, proposal }))
    await context.close()
  })

  await t.test('without script a customer orders, names a plan and tops up, and sees errors', async () => {
    const visit = await openPage(browser, { javaScriptEnabled: false })
    const { page, context } = visit
    await signIn(app, visit, account.accountId)
    await page.goto(`${origin}/console/catalogue/residential-premium`)
    await page.getByLabel('Quantity').fill('4')
    await page.getByRole('button', { name: 'Quote' }).click()
    const quoted = (await page.locator('#live-quote .figure').textContent()) ?? ''
    await page.getByRole('button', { name: `Buy for ${quoted}` }).click()
    await page.getByText('Ordered.').waitFor()
    await page.locator('dl').getByText(quoted, { exact: true }).waitFor()
    await page.goto(`${origin}/console/plans/${account.planId}`)
    await page.getByLabel('Label').fill('<i>acme</i>')
    await page.getByRole('button', { name: 'Set label' }).click()
    assert.equal(await page.getByLabel('Label').inputValue(), '<i>acme</i>')
    await page.goto(`${origin}/console/plans`)
    await page.getByText('<i>acme</i>').waitFor()
    await page.goto(`${origin}/console/top-up`)
    await page.getByLabel('Amount, USD').fill('a lot')
    await page.getByRole('button', { name: 'Create invoice' }).click()
    assert.equal(await page.getByLabel('Amount, USD').inputValue(), 'a lot')
    await page.getByLabel('Amount, USD').fill('25.50')
    await page.getByRole('button', { name: 'Create invoice' }).click()
    await page.getByRole('link', { name: 'Pay $25.50' }).waitFor()
    assert.match(page.url(), /\/console\/deposits\/dep_[0-9a-f]{32}$/)
    await context.close()
  })

  await t.test('a page refreshes itself while the work that it started runs', async () => {
    const visit = await openPage(browser)
    const { page, context, complaints } = visit
    await become(visit, staff)
    // The page says at first that something runs, as for long work; it fetches the result later.
    await page.route('**/console/finance/replay', async (route) => {
      const answer = await route.fetch()
      const isDocument = route.request().resourceType() === 'document'
      const body = (await answer.text()).replace('id="replays" data-live', 'id="replays" data-live data-runs')
      await route.fulfill({ response: answer, ...(isDocument && { body }) })
    })
    await page.goto(`${origin}/console/finance/replay`)
    const form = hiddenField(await staff.get('/console/finance/replay'), 'form')
    assert.equal((await staff.post('/console/finance/replay', { form })).status, 303)
    await page.locator('#replays').getByText('the same').waitFor()
    await page.locator('#replays:not([data-runs])').waitFor()
    assert.deepEqual(complaints, [])
    await context.close()
  })

  await t.test('the proxy checker shows results as they arrive, escaped, and what was refused', async () => {
    const visit = await openPage(browser)
    const { page, context, complaints } = visit
    const result = { alive: true, protocols: ['http'], anonymity: 'elite', exit_ip: '8.8.8.8', asn: 15169 }
    const alive = { ...result, country_code: 'us', latency_ms: 120, error: null, detail: null }
    const dead = { ...alive, alive: false, detail: '<b>nothing listens there</b>', exit_ip: null, asn: null }
    const events = [
      ['result', { index: 1, proxy: '8.8.4.4:80', ...dead }],
      ['result', { index: 0, proxy: '8.8.8.8:3128', ...alive }],
      ['summary', {}],
    ] as const
    const requests: string[] = []
    await page.route('**/api/proxy-check', async (route) => {
      requests.push(route.request().postData() ?? '')
      if (requests.length === 1)
        await route.fulfill({
          contentType: 'text/event-stream',
          body: events.map(([name, data]) => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`).join(''),
        })
      else await route.fulfill({ status: 429, json: { error: 'as many checks of yours run as may' } })
    })
    await page.goto(`${origin}/proxy-checker`)
    await page.getByLabel('Proxies').fill('8.8.8.8:3128\n 8.8.4.4:80')
    await page.getByRole('button', { name: 'Check' }).click()
    await page.getByText('2 of 2 checked, 1 works').waitFor()
    assert.equal(requests[0], JSON.stringify({ proxies: ['8.8.8.8:3128', '8.8.4.4:80'] }))
    await page.getByText('<b>nothing listens there</b>').waitFor()
    assert.equal(
      await page.getByRole('link', { name: 'AS15169', exact: true }).getAttribute('href'),
      '/networks/AS15169',
    )
    if (pictures) await writeFile(join(pictures, 'proxy-checker-live.png'), await pictureOf(page))
    await page.getByRole('button', { name: 'Check' }).click()
    await page.getByText('as many checks of yours run as may').waitFor()
    assert.deepEqual(
      complaints.filter((text) => !text.includes('429')),
      [],
    )
    await context.close()
  })

  await t.test(
    'a passkey of a virtual authenticator is added, signs in, and confirms an action',
    async () => {
      const visit = await openPage(browser)
      const { page, context, complaints } = visit
      const session = await context.newCDPSession(page)
      await session.send('WebAuthn.enable')
      await session.send('WebAuthn.addVirtualAuthenticator', {
        options: {
          protocol: 'ctap2',
          transport: 'internal',
          hasResidentKey: true,
          hasUserVerification: true,
          isUserVerified: true,
          automaticPresenceSimulation: true,
        },
      })
      await signIn(app, visit, account.accountId)
      await page.goto(`${origin}/console/passkeys`)
      await page.getByLabel('Name').fill('laptop')
      await page.getByRole('button', { name: 'Add passkey' }).click()
      await page.getByText('The passkey is added.').waitFor()
      await page.getByRole('navigation', { name: 'Your account' }).locator('summary').click()
      await page.getByRole('button', { name: 'Sign out' }).click()
      await page.goto(`${origin}/console/sign-in?to=/console/plans`)
      await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
      await page.waitForURL(`${origin}/console/plans`)
      // The sign-in is too old: the action needs the passkey again.
      await changeSessions(app, [account.accountId], `confirmed_until = now() - interval '1 day'`)
      await page.goto(`${origin}/console/keys/new`)
      assert.match(page.url(), /\/console\/confirm\?/)
      await page.getByRole('button', { name: 'Use a passkey' }).click()
      await page.waitForURL(`${origin}/console/keys/new`)
      assert.deepEqual(complaints, [])
      await context.close()
    },
  )

  await t.test('staff register a passkey by a link of the command line, and view an account', async () => {
    const granted = await operate(
      ['staff', 'grant', '--email', 'ops@example.com', '--role', 'operator', '--json'],
      app.env,
    )
    const { url } = JSON.parse(granted.out) as { url: string }
    const { page, context, complaints } = await openPage(browser)
    const session = await context.newCDPSession(page)
    await session.send('WebAuthn.enable')
    await session.send('WebAuthn.addVirtualAuthenticator', {
      options: {
        protocol: 'ctap2',
        transport: 'usb',
        hasResidentKey: true,
        hasUserVerification: true,
        isUserVerified: true,
        automaticPresenceSimulation: true,
      },
    })
    await page.goto(url)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.waitForURL(`${origin}/console/passkeys`)
    await page.getByRole('button', { name: 'Add passkey' }).click()
    await page.getByText('The passkey is added.').waitFor()
    await page.goto(`${origin}/console`)
    await page.waitForURL(`${origin}/console/staff`)
    assert.deepEqual(await violations(page), [])
    if (pictures) await writeFile(join(pictures, 'staff-home.png'), await pictureOf(page))
    await page.getByRole('link', { name: 'View an account' }).click()
    await page.getByRole('textbox', { name: 'Account' }).fill(account.email)
    await page.getByLabel('Reason').fill('a question about an order')
    await page.getByRole('button', { name: 'View account' }).click()
    await page.getByText('as it sees them').waitFor()
    await page.goto(`${origin}/console/keys`)
    if (pictures) await writeFile(join(pictures, 'view-as.png'), await pictureOf(page))
    assert.deepEqual(await violations(page), [])
    await page.goto(`${origin}/console/notices`)
    await page.getByRole('button', { name: 'Mark all as read' }).click()
    await page.getByText('You are viewing this account. You cannot change anything.').waitFor()
    await page.getByRole('button', { name: 'Stop viewing' }).click()
    await page.waitForURL(`${origin}/console/staff`)
    assert.deepEqual(
      complaints.filter((text) => !text.includes('403')),
      [],
    )
    await context.close()
  })
})
