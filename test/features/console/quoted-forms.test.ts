import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Page, Route } from 'playwright-core'
import { launchBrowser, openPage } from '../../support/browser.ts'
import { consoleOrigin, printedLink } from '../../support/console.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

/** Keeps answers to questions for a quote back until `release`. */
const holdQuotes = async (page: Page) => {
  const held: Route[] = []
  let open = false
  await page.route('**/*', async (route) => {
    if (open || route.request().resourceType() !== 'xhr') return route.continue()
    held.push(route)
  })
  return {
    isRequested: () => held.length > 0,
    release: async (): Promise<void> => {
      open = true
      for (const route of held) await route.continue()
    },
  }
}

const productPath = '/console/catalogue/residential-premium'

test('a form with a quote orders exactly what its fields say', async (t) => {
  const app = await testApp(t)
  const browser = await launchBrowser(t)
  const origin = consoleOrigin(app)
  const { accountId, key } = await app.customer({ email: 'nora@example.com', cents: 90_000 })
  const signedInPage = async (javaScriptEnabled = true) => {
    const visit = await openPage(browser, { javaScriptEnabled })
    await visit.page.goto(`${origin}${await printedLink(app, accountId)}`)
    await visit.page.getByRole('button', { name: 'Sign in' }).click()
    return visit
  }
  const quantities = async (): Promise<readonly number[]> => {
    const { body } = await app.buyer.get('/api/v1/orders', { key })
    return body.orders.map(({ quantity }: { quantity: number }) => quantity)
  }
  const buy = (page: Page) => page.locator('#buy')
  const first = await app.buyer.post(
    '/api/v1/orders',
    { product_id: 'residential-premium', quantity: 2 },
    { key, headers: { 'Idempotency-Key': 'one' } },
  )
  const planPath = `/console/plans/${first.body.planId}/top-up`

  for (const path of [productPath, planPath]) {
    const where = path === productPath ? 'a product' : 'a top-up'

    await t.test(`${where}, by keyboard while the quote is loading`, async () => {
      const { page, context, complaints } = await signedInPage()
      const before = (await quantities()).length
      await page.goto(`${origin}${path}`)
      const old = await buy(page).textContent()
      const quotes = await holdQuotes(page)
      await page.getByLabel(/Quantity|Add/).fill('8')
      await page.keyboard.press('Tab')
      await page.keyboard.press('Tab')
      assert.equal(await page.evaluate('document.activeElement.id'), 'buy')
      await page.keyboard.press('Enter')
      await until(quotes.isRequested)
      await page.keyboard.press('Enter')
      assert.equal(await buy(page).getAttribute('aria-disabled'), 'true')
      assert.equal((await quantities()).length, before)
      await quotes.release()
      await page.locator('#buy:not([aria-disabled])').waitFor()
      assert.notEqual(await buy(page).textContent(), old)
      assert.equal(await page.evaluate('document.activeElement.id'), 'buy')
      await page.keyboard.press('Enter')
      await page.getByText(/Ordered\.|Topped up:/).waitFor()
      assert.deepEqual([(await quantities()).length, (await quantities())[0]], [before + 1, 8])
      assert.deepEqual(complaints, [])
      await context.close()
    })

    await t.test(`${where}, by mouse while the quote is loading`, async () => {
      const { page, context, complaints } = await signedInPage()
      const before = (await quantities()).length
      await page.goto(`${origin}${path}`)
      const quotes = await holdQuotes(page)
      await page.getByLabel(/Quantity|Add/).fill('7')
      await buy(page).click({ force: true })
      await until(quotes.isRequested)
      await buy(page).click({ force: true })
      assert.equal((await quantities()).length, before)
      await quotes.release()
      // Playwright waits until the button is no longer disabled.
      await buy(page).click()
      await page.getByText(/Ordered\.|Topped up:/).waitFor()
      assert.deepEqual([(await quantities()).length, (await quantities())[0]], [before + 1, 7])
      assert.deepEqual(complaints, [])
      await context.close()
    })

    await t.test(`${where}, without script: a changed price asks for confirmation again`, async () => {
      const { page, context } = await signedInPage(false)
      const before = (await quantities()).length
      await page.goto(`${origin}${path}`)
      await page.getByLabel(/Quantity|Add/).fill('6')
      await buy(page).click()
      await page.getByText(/Nothing was ordered\. The price of 6 GB is \$.*, not \$/).waitFor()
      assert.equal(await page.getByLabel(/Quantity|Add/).inputValue(), '6')
      assert.equal((await quantities()).length, before)
      await buy(page).click()
      await page.getByText(/Ordered\.|Topped up:/).waitFor()
      assert.deepEqual([(await quantities()).length, (await quantities())[0]], [before + 1, 6])
      await context.close()
    })
  }

  for (const path of [productPath, planPath]) {
    const where = path === productPath ? 'a product' : 'a top-up'
    const done = /Ordered\.|Topped up:|It was (ordered|topped up) before/
    const quantityOf = (page: Page) => page.getByLabel(/Quantity|Add/)
    /** Opens the form and enters the quantity; the quote is shown. */
    const quoted = async (page: Page, quantity: number): Promise<void> => {
      await page.goto(`${origin}${path}?quantity=${quantity}`)
      await page.locator('#live-quote').getByText(`${quantity} GB`).waitFor()
    }
    const orderedSince = async (before: number): Promise<readonly number[]> => {
      const all = await quantities()
      return all.slice(0, all.length - before)
    }

    for (const script of [true, false])
      await t.test(`${where}, by a double click, ${script ? 'with' : 'without'} script`, async () => {
        const { page, context, complaints } = await signedInPage(script)
        const before = (await quantities()).length
        await quoted(page, 4)
        await buy(page).dblclick()
        // Without script the second click sends the form again, or is on the page of the order. So its message may be gone.
        if (script) await page.getByText(done).waitFor()
        else await page.waitForURL((url) => url.pathname !== path)
        assert.deepEqual(await orderedSince(before), [4])
        assert.deepEqual(complaints, [])
        await context.close()
      })

    await t.test(
      `${where}, changed while the order is being sent: the order is placed once, as sent`,
      async () => {
        const { page, context } = await signedInPage()
        const before = (await quantities()).length
        await quoted(page, 3)
        const posts: string[] = []
        page.on('request', (request) => request.method() === 'POST' && posts.push(request.url()))
        const isDisabled = await page.evaluate(`(() => {
        const [field, button] = [document.querySelector('#quantity'), document.querySelector('#buy')]
        button.click()
        field.value = '9'
        field.dispatchEvent(new Event('input', { bubbles: true }))
        button.click()
        return button.getAttribute('aria-disabled')
      })()`)
        assert.equal(isDisabled, 'true')
        await page.getByText(done).waitFor()
        assert.deepEqual([posts.length, await orderedSince(before)], [1, [3]])
        await context.close()
      },
    )

    await t.test(`${where}, from two windows, and after Back: each form orders what it shows`, async () => {
      const { page, context } = await signedInPage()
      const other = await context.newPage()
      const before = (await quantities()).length
      await quoted(page, 5)
      await quoted(other, 6)
      for (const each of [page, other]) {
        await buy(each).click()
        await each.getByText(done).waitFor()
      }
      assert.deepEqual(await orderedSince(before), [6, 5])
      await page.goBack()
      const shown = Number(await quantityOf(page).inputValue())
      await page.locator('#live-quote').getByText(`${shown} GB`).waitFor()
      await buy(page).click()
      await page.getByText(done).waitFor()
      assert.deepEqual(await orderedSince(before), [shown, 6, 5])
      await context.close()
    })
  }

  await t.test('a form whose response was stopped can be sent again, and orders once', async () => {
    const { page, context } = await signedInPage()
    const before = (await quantities()).length
    await page.goto(`${origin}${productPath}?quantity=2`)
    let placed = false
    await page.route('**/*', async (route) => {
      if (placed || route.request().method() !== 'POST') return route.continue()
      await route.fetch({ maxRedirects: 0 })
      placed = true
    })
    const isDisabled = await page.evaluate(`(() => {
      const button = document.querySelector('#buy')
      button.click()
      return button.getAttribute('aria-disabled')
    })()`)
    assert.equal(isDisabled, 'true')
    await until(() => placed)
    await (await context.newCDPSession(page)).send('Page.stopLoading')
    await page.locator('#buy:not([aria-disabled])').waitFor()
    await page.getByLabel('Quantity').fill('8')
    await page.locator('#live-quote').getByText('8 GB').waitFor()
    await buy(page).click()
    await page.getByText('Nothing was ordered. This form was sent before with other values.').waitFor()
    assert.equal((await quantities()).length, before + 1)
    await buy(page).click()
    await page.getByText('Ordered.').waitFor()
    assert.deepEqual((await quantities()).slice(0, 2), [8, 2])
    await context.close()
  })

  await t.test('a form with a key is sent once while its response is pending', async () => {
    const { page, context } = await signedInPage()
    const posts: string[] = []
    page.on('request', (request) => request.method() === 'POST' && posts.push(request.url()))
    await page.goto(`${origin}/console/top-up`)
    await page.getByLabel('Amount').fill('25')
    const press = "document.querySelector('main form .first').click()"
    await page.evaluate(`${press}; new Promise((done) => setTimeout(() => done(${press})))`)
    await page.getByText('Deposit of $25.00').waitFor()
    assert.equal(posts.length, 1)
    await context.close()
  })

  await t.test('without a quote, the shown price orders nothing else', async () => {
    const { page, context } = await signedInPage()
    const before = (await quantities()).length
    await page.goto(`${origin}${productPath}`)
    await page.route('**/*', (route) =>
      route.request().resourceType() === 'xhr' ? route.abort() : route.continue(),
    )
    await page.getByLabel('Quantity').fill('9')
    await buy(page).click()
    await page.getByText(/Nothing was ordered\. The price of 9 GB is/).waitFor()
    assert.equal((await quantities()).length, before)
    await context.close()
  })

  await t.test('a quantity without a price disables the button and says why', async () => {
    const { page, context } = await signedInPage()
    await page.goto(`${origin}${productPath}`)
    await page.getByLabel('Quantity').fill('none')
    await page.getByText('No price.').waitFor()
    assert.equal(await buy(page).count(), 0)
    await page.locator('#live-quote .problem').waitFor()
    await page.getByLabel('Quantity').fill('3')
    await page.locator('#live-quote').getByText('3 GB').waitFor()
    assert.equal(await page.evaluate('document.activeElement.id'), 'quantity')
    await context.close()
  })

  await t.test('a choice inside a refreshed part stays chosen', async () => {
    const { page, context, complaints } = await signedInPage()
    await page.goto(`${origin}/console/catalogue/isp-static`)
    await page.getByLabel('Country').selectOption('DEU')
    await page.locator('#live-quote').getByText('Germany').waitFor()
    const period = page.getByLabel('Period', { exact: true })
    const choices = await period.locator('option').evaluateAll((all) => all.map((each) => each.value))
    const other = choices.find((value) => value !== '30') ?? '30'
    await period.focus()
    await period.selectOption(other)
    await page.locator('#live-quote').getByText(`${other} day`).waitFor()
    assert.equal(await period.inputValue(), other)
    assert.equal(await page.evaluate('document.activeElement.id'), 'period_days')
    assert.deepEqual(complaints, [])
    await context.close()
  })

  await t.test('an unspecified line is the line of the quote', async () => {
    const { page, context } = await signedInPage(false)
    await page.goto(`${origin}/console/catalogue/mobile-dedicated?quantity=1`)
    const line = await page.locator('#live-quote small').first().textContent()
    await buy(page).click()
    await page.getByText('Ordered.').waitFor()
    const { body } = await app.buyer.get('/api/v1/orders', { key })
    const { service: modem } = body.orders[0].fulfillmentMeta
    assert.ok(line?.includes(modem), `${line}: ${JSON.stringify(body.orders[0])}`)
    await context.close()
  })
})
