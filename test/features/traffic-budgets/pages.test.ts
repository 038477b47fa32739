import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { done } from '../../support/app-actions.ts'
import { type Browser, hiddenField, signedIn } from '../../support/console.ts'
import { testApp } from '../../support/test-app.ts'
import { storeUse } from './use.ts'

const root = '/console/traffic-budgets'
const gb = 1_000_000_000

const send = async (browser: Browser, path: string, fields: Readonly<Record<string, string>>) => {
  const form = hiddenField(await browser.get(path), 'form')
  return browser.post(path, { form, ...fields })
}

test('the pages of traffic budgets', async (t) => {
  const app = await testApp(t)
  const account = await app.customer({ cents: 50_000 })
  const browser = await signedIn(app, account.accountId)
  const api = async (path: string) => (await done(app.client.get(path, { key: account.key }))).body
  const order = { product_id: 'residential-premium', quantity: 2 }
  const { planId } = (await done(app.client.post('/api/v1/orders', order, { key: account.key }))).body
  const limits = { period: 'day', zone: 'Europe/Berlin', limit: '2.5' }
  let here = ''

  await t.test('a budget is set for a plan, which is chosen from a list or on its own page', async () => {
    assert.match((await browser.get(root)).html, /There are no traffic budgets yet/)
    assert.match((await browser.get(`${root}/new`)).html, new RegExp(`<option value="${planId}"`))
    assert.match(
      (await browser.get(`/console/plans/${planId}`)).html,
      new RegExp(`href="${root}\\?plan=${planId}"`),
    )
    const { status, to } = await send(browser, `${root}/new?plan=${planId}`, {
      plan: planId,
      customer: '',
      ...limits,
    })
    assert.equal(status, 303)
    here = to ?? ''
    const [budget] = (await api('/api/v1/traffic-budgets')).trafficBudgets
    assert.equal(here, `${root}/${budget.id}`)
    assert.deepEqual(
      [budget.scope, budget.planId, budget.period, budget.timeZone, budget.limitBytes],
      ['plan', planId, 'day', 'Europe/Berlin', 2.5 * gb],
    )
  })

  await t.test('the list and the page show the use of the current period', async () => {
    const [budget] = (await api('/api/v1/traffic-budgets')).trafficBudgets
    await storeUse(app.core.pool, {
      budgetId: budget.id,
      countedFromMs: Date.parse(budget.countedFrom),
      usedBytes: 2 * gb,
      limitBytes: 2.5 * gb,
    })
    for (const path of [root, `${root}?plan=${planId}`, here]) {
      const { html } = await browser.get(path)
      assert.match(html, /2 GB <small>of 2\.50 GB<\/small>/, path)
      assert.match(html, new RegExp(`<meter min="0" max="${2.5 * gb}"[^>]* value="${2 * gb}"`), path)
      assert.match(html, /nearly used/, path)
      assert.match(html, new RegExp(`datetime="${budget.resetsAt}"`), path)
    }
    assert.match((await browser.get(`${root}?plan=pln_none`)).html, /Nothing matches/)
    const csv = await browser.get(`${root}?format=csv`)
    assert.match(csv.html, new RegExp(`\nPlan Premium residential,${2 * gb},${2.5 * gb},nearly used,`))
  })

  await t.test('a set or an address limits less than the plan, and both are refused', async () => {
    const { whitelist } = (
      await done(
        app.client.post(
          `/api/v1/plans/${planId}/whitelist`,
          { entries: [{ cidr: '8.8.4.2', label: 'office' }] },
          { key: account.key },
        ),
      )
    ).body
    const entry = whitelist[0].id
    const path = `${root}/new?plan=${planId}`
    assert.match((await browser.get(path)).html, /8\.8\.4\.2\/32 office/)
    const both = await send(browser, path, { plan: planId, set: 'abcdefgh', entry, ...limits })
    assert.equal(both.status, 400)
    assert.match(both.html, /not both/)
    const unknown = await send(browser, path, { plan: planId, set: 'abcdefgh', ...limits })
    assert.match(unknown.html, /no line set with this id/)
    assert.equal(unknown.status, 400)
    const { to } = await send(browser, path, { plan: planId, entry, ...limits })
    assert.match((await browser.get(to ?? '')).html, /Address 8\.8\.4\.2\/32 per day/)
  })

  await t.test('wrong limits and zones are refused at their fields', async () => {
    for (const [field, value] of [
      ['limit', 'much'],
      ['limit', '0.0009'],
      ['limit', '1000001'],
      ['limit', ''],
      ['zone', 'Mars/Base'],
      ['period', 'year'],
    ] as const) {
      const path = `${root}/new?plan=${planId}`
      const { status, html } = await send(browser, path, { plan: planId, ...limits, [field]: value })
      assert.equal(status, 400, value)
      assert.match(html, new RegExp(`href="#${field}"`), value)
    }
  })

  await t.test('a budget is changed and reset', async () => {
    const changed = await send(browser, here, { limit: '4', zone: 'UTC' })
    assert.deepEqual([changed.status, changed.to], [303, here])
    const id = here.split('/').at(-1)
    const before = await api(`/api/v1/traffic-budgets/${id}`)
    assert.deepEqual([before.limitBytes, before.timeZone, before.period], [4 * gb, 'UTC', 'day'])
    assert.match((await browser.get(`${here}/reset`)).html, /begins again at 0/)
    assert.equal((await send(browser, `${here}/reset`, {})).to, here)
    const after = await api(`/api/v1/traffic-budgets/${id}`)
    assert.ok(after.countedFrom > before.countedFrom)
  })

  await t.test('other accounts do not see it', async () => {
    const other = await signedIn(app, (await app.customer({ cents: 0 })).accountId)
    for (const path of [here, `${here}/reset`, `${here}/remove`, `${root}/new?plan=${planId}`])
      assert.equal((await other.get(path)).status, 404, path)
    assert.doesNotMatch((await other.get(root)).html, /tbg_/)
  })

  await t.test('a budget is removed after a confirmation', async () => {
    assert.match((await browser.get(`${here}/remove`)).html, /no longer limited/)
    assert.equal((await send(browser, `${here}/remove`, {})).to, root)
    assert.equal((await browser.get(here)).status, 404)
  })

  await t.test('a reseller limits all plans of a customer, and filters by customer', async () => {
    const shop = await app.newReseller(500_000)
    const customerId = await shop.pay('alice-17', 50_000)
    await shop.pay('bob', 20_000)
    const reseller = await signedIn(app, shop.accountId)
    assert.match((await reseller.get(`${root}/new`)).html, /alice-17/)
    assert.match(
      (await reseller.get(`/console/reseller/customers/${customerId}`)).html,
      new RegExp(`href="${root}\\?customer=${customerId}"`),
    )
    const { to } = await send(reseller, `${root}/new?customer=${customerId}`, {
      plan: '',
      customer: customerId,
      ...limits,
    })
    assert.match((await reseller.get(to ?? '')).html, /All plans of alice-17 per day/)
    for (const customer of ['alice-17', customerId]) {
      const { html } = await reseller.get(`${root}?customer=${customer}`)
      assert.match(html, /All plans of alice-17/)
      assert.match(html, new RegExp(`href="/console/reseller/customers/${customerId}"`))
    }
    assert.match((await reseller.get(`${root}?customer=bob`)).html, /Nothing matches/)
    assert.equal((await reseller.get(`${root}/new?customer=cus_${randomUUID()}`)).status, 404)
  })
})
