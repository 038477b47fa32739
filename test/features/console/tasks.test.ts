import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { BrowserContextOptions, Locator, Page, Browser as PlaywrightBrowser } from 'playwright-core'
import { createCatalogService } from '../../../src/features/catalog/import-catalog.ts'
import type { AccountId } from '../../../src/kernel/ids.ts'
import { launchBrowser, openPage } from '../../support/browser.ts'
import { type Browser, consoleOrigin, printedLink, signedIn, staffBrowser } from '../../support/console.ts'
import { operator } from '../../support/operator.ts'
import { type TestApp, testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

/** Uses a link or a button. */
type Use = (target: Locator) => Promise<void>

/** From the top-up to a curl command for Germany. Returns the number of uses, and the page at its end. */
const buyGermanLines = async (
  app: TestApp,
  page: Page,
  accountId: AccountId,
  use: Use,
  chooseCountry: (list: Locator) => Promise<void>,
): Promise<number> => {
  let uses = 0
  const count = async (target: Locator): Promise<void> => {
    uses += 1
    await use(target)
  }
  const link = (name: string | RegExp): Locator => page.getByRole('main').getByRole('link', { name }).first()
  const button = (name: string | RegExp): Locator => page.getByRole('button', { name }).first()
  await page.goto(`${consoleOrigin(app)}${await printedLink(app, accountId)}`)
  await use(button('Sign in'))

  await count(link('Top up'))
  await count(button('Top up $50.00'))
  await count(link('Pay $50.00'))
  await count(button('Pay $50.00'))
  await count(link(/Back to/))
  await link('Premium residential').or(page.getByText('Waiting for the payment')).first().waitFor()
  await page.reload()
  await count(link('Premium residential'))
  await count(button(/^Buy for/))
  await count(link('Get proxy lines'))
  await chooseCountry(page.getByLabel('Country'))
  await page.getByText('-country-de:').first().waitFor()
  const { lines } = await page.getByLabel('20 lines').evaluate((area) => ({
    lines: (area as unknown as { value: string }).value.split('\n'),
  }))
  assert.equal(lines.length, 20)
  for (const line of lines) assert.match(line, /-country-de:/)
  await page.getByText('All lines are equal: each connection gets a new address.').waitFor()
  return uses
}

test('a new customer gets from the top-up to a curl command for Germany', async (t) => {
  const app = await testApp(t, { own: true })
  const browser = await launchBrowser(t)
  const visit = async (options: BrowserContextOptions = {}) => ({
    customer: await app.customer({ cents: 100 }),
    ...(await openPage(browser, options)),
  })

  await t.test('with 9 clicks', async () => {
    const { customer, page, complaints } = await visit()
    const clicks = await buyGermanLines(
      app,
      page,
      customer.accountId,
      (target) => target.click(),
      async (list) => {
        await list.selectOption('de')
      },
    )
    await page.getByRole('button', { name: 'Copy the curl example' }).click()
    assert.equal(clicks + 1, 9)
    assert.deepEqual(complaints, [])
    assert.equal(await app.balance(customer.key), 100 + 5_000 - 550)
  })

  await t.test('with the keyboard alone', async () => {
    const { customer, page, complaints } = await visit()
    const isFocused = (target: Locator): Promise<boolean> =>
      target.evaluate((element) => element === element.ownerDocument.activeElement)
    const focus = async (target: Locator): Promise<void> => {
      await target.waitFor()
      for (let presses = 0; !(await isFocused(target)); presses++) {
        assert.ok(presses < 100, `${target} is not reached with the Tab key`)
        await page.keyboard.press('Tab')
      }
    }
    const press = async (target: Locator): Promise<void> => {
      await focus(target)
      await page.keyboard.press('Enter')
    }
    await buyGermanLines(app, page, customer.accountId, press, async (list) => {
      await focus(list)
      await page.keyboard.type('Germany')
    })
    await press(page.getByRole('button', { name: 'Copy the curl example' }))
    await page.getByRole('button', { name: /^(Copied|Selected: copy it)$/ }).waitFor()
    assert.deepEqual(complaints, [])
    assert.equal(await app.balance(customer.key), 100 + 5_000 - 550)
  })

  await t.test('without JavaScript', async () => {
    const { customer, page } = await visit({ javaScriptEnabled: false })
    const generate = page.getByRole('button', { name: 'Generate' })
    await buyGermanLines(
      app,
      page,
      customer.accountId,
      (target) => target.click(),
      async (list) => {
        await list.selectOption('de')
        await generate.click()
      },
    )
    await page
      .getByText(/^curl .*-country-de/)
      .first()
      .waitFor()
    assert.equal(await app.balance(customer.key), 100 + 5_000 - 550)
  })
})

/** A page in a browser that is signed in as another test client, with a count of its clicks. */
const signedInPage = async (browser: PlaywrightBrowser, app: TestApp, { cookies }: Browser) => {
  const { page, context, complaints } = await openPage(browser)
  await context.addCookies(
    [...cookies].map(([name, value]) => ({ name, value, domain: 'localhost', path: '/', secure: true })),
  )
  let clicks = 0
  return {
    page,
    complaints,
    open: (path: string) => page.goto(`${consoleOrigin(app)}${path}`),
    click: async (name: string | RegExp): Promise<void> => {
      clicks += 1
      await page.getByRole('main').getByRole('link', { name }).first().click()
    },
    clicks: () => clicks,
  }
}

test('common tasks take few clicks', async (t) => {
  const app = await testApp(t, { own: true })
  const browser = await launchBrowser(t)
  const account = await app.customer({ email: 'dora@example.com', cents: 10_000 })
  const plan = { product_id: 'residential-premium', quantity: 1 }
  const bought = await app.buyer.post('/api/v1/orders', plan, { key: account.key })
  assert.equal(bought.status, 201)

  await t.test('a customer sees the request of a failed webhook with 3 clicks', async () => {
    const hook = await app.buyer.post(
      '/api/v1/webhooks',
      { url: 'http://127.0.0.1:9/x' },
      { key: account.key },
    )
    await app.buyer.post(`/api/v1/webhooks/${hook.body.id}/test`, {}, { key: account.key })
    const session = await signedIn(app, account.accountId)
    await until(
      async () => (await session.open('/console')).html.includes(`/console/webhooks/${hook.body.id}`),
      {
        what: 'the failed attempt',
      },
    )
    const { page, open, click, clicks, complaints } = await signedInPage(browser, app, session)
    await open('/console')
    await click(/webhook/)
    await click('ping')
    await page.getByText('This is a test of your webhook endpoint.').waitFor()
    await page.getByText('webhook-signature').waitFor()
    assert.ok(clicks() <= 3)
    assert.deepEqual(complaints, [])
  })

  await t.test('a reseller sees the statement of this month with its totals with 3 clicks', async () => {
    const shop = await app.newReseller(500_000)
    await shop.pay('alice', 50_000)
    assert.equal((await shop.order('alice', plan)).status, 201)
    const { page, open, click, clicks } = await signedInPage(
      browser,
      app,
      await signedIn(app, shop.accountId),
    )
    await open('/console')
    await click('All margins')
    await click('Statement')
    await page.getByText('The totals are of the chosen days').waitFor()
    await page.getByRole('link', { name: /^Sale of Premium residential/ }).waitFor()
    assert.ok(clicks() <= 3)
  })

  await t.test(
    'finance sees the lines behind the balance of a wallet after a search for its e-mail',
    async () => {
      const session = await staffBrowser(app, ['finance'])
      const { page, open } = await signedInPage(browser, app, session)
      await open('/console/staff')
      await page.getByRole('searchbox').first().fill('dora@')
      await page.keyboard.press('Enter')
      await page.waitForURL('**/console/finance/account?*')
      const [, newest] = await page.getByRole('row').all()
      assert.match((await newest?.textContent()) ?? '', /order[\s\S]*Premium residential[\s\S]* Cr/)
    },
  )

  await t.test('an operator opens a failed order with 2 clicks', async () => {
    const awaited = await app.buyer.post(
      '/api/v1/orders',
      { product_id: 'residential-unlimited', quantity: 1, method: 'card' },
      { key: account.key },
    )
    const { deposits } = (await app.buyer.get('/api/v1/deposits', { key: account.key })).body
    await createCatalogService(app.core.runner).setState(
      { productId: 'residential-unlimited', state: 'parked', successorId: null },
      operator,
    )
    await app.act(deposits[0].deposit_id, 'pay', awaited.body.amountCents)
    const session = await staffBrowser(app, ['operator'])
    await until(async () => (await session.open('/console/staff')).html.includes('1 order failed'), {
      what: 'the failed order',
    })
    const { page, open, click, clicks } = await signedInPage(browser, app, session)
    await open('/console/staff')
    await click(/1 order failed/)
    await click(/residential/)
    await page.getByText(awaited.body.orderId).first().waitFor()
    assert.ok(clicks() <= 2)
  })
})

test('a form whose session has ended has its input again after the sign-in', async (t) => {
  const app = await testApp(t, { own: true })
  const browser = await launchBrowser(t)
  const { accountId } = await app.customer({ cents: 100 })
  const { page, context, complaints } = await openPage(browser)
  const signIn = async (): Promise<void> => {
    await page.goto(`${consoleOrigin(app)}${await printedLink(app, accountId)}`)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('heading', { name: 'Home' }).waitFor()
  }
  await signIn()
  const cookies = await context.cookies()
  await page.goto(`${consoleOrigin(app)}/console/top-up`)
  await page.getByLabel('Amount, USD').fill('77.50')
  await context.clearCookies()
  await page.getByRole('button', { name: 'Create invoice' }).click()
  await page.getByText('Your session has ended, and nothing was changed.').waitFor()
  await context.addCookies(cookies)
  const form = page.waitForURL('**/console/top-up')
  await page.evaluate("location.href = '/console/top-up'")
  await form
  assert.equal(await page.getByLabel('Amount, USD').inputValue(), '77.50')
  await page.goto(`${consoleOrigin(app)}/console/top-up`)
  assert.equal(await page.getByLabel('Amount, USD').inputValue(), '')
  assert.deepEqual(complaints, [])
})
