import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import type { Targeting } from '../../../src/domain/exits/line.ts'
import { createLineSets } from '../../../src/features/lines/index.ts'
import type { PlanId } from '../../../src/kernel/ids.ts'
import { asCustomer, done } from '../../support/app-actions.ts'
import { testApp } from '../../support/test-app.ts'

const path = '/api/v1/traffic-budgets'
const gigabyte = 1_000_000_000
const day = 86_400_000

const opened = async (t: Parameters<typeof testApp>[0]) => {
  const app = await testApp(t)
  const { client, core } = app
  const buy = async (key: string, customer?: string): Promise<PlanId> => {
    const headers = { 'Idempotency-Key': randomUUID(), ...(customer && asCustomer(customer)) }
    const order = { product_id: 'residential-premium', quantity: 1 }
    return (await done(client.post('/api/v1/orders', order, { key, headers }))).body.planId
  }
  const buyer = async () => {
    const { accountId, key } = await app.customer({ cents: 10_000 })
    return { accountId, key, planId: await buy(key) }
  }
  const set = (key: string, json: object, customer?: string) =>
    client.call('PUT', path, { key, json, ...(customer && { headers: asCustomer(customer) }) })
  const list = async (key: string, query = '', customer?: string): Promise<readonly string[]> => {
    const headers = customer === undefined ? {} : asCustomer(customer)
    const { body } = await done(client.get(`${path}${query}`, { key, headers }))
    return body.trafficBudgets.map(({ id }: { id: string }) => id)
  }
  /** As gateways do. */
  const use = (budget: { id: string; countedFrom: string; limitBytes: number }, bytes: number) =>
    core.pool.query(
      `insert into work.traffic_budget_use as known (budget_id, counted_from, used_bytes, limit_bytes)
       values ($1::text, $2::timestamptz, $3::bigint, $4::bigint)`,
      [budget.id, budget.countedFrom, bytes, budget.limitBytes],
    )
  return { ...app, buy, newBuyer: buyer, set, list, use }
}

test('traffic budgets', async (t) => {
  const app = await opened(t)
  const { client, core, newBuyer, set, list, use } = app

  await t.test('a target and a period have one budget, which a second request changes', async () => {
    const { key, planId } = await newBuyer()
    const created = await set(key, { planId, period: 'day', limitBytes: gigabyte })
    assert.equal(created.status, 201, created.text)
    const { id, countedFrom, resetsAt, createdAt, ...record } = created.body
    assert.deepEqual(record, {
      scope: 'plan',
      planId,
      lineSet: null,
      whitelistEntryId: null,
      customerId: null,
      customer: null,
      period: 'day',
      timeZone: 'UTC',
      limitBytes: gigabyte,
      usedBytes: 0,
      remainingBytes: gigabyte,
    })
    assert.equal(countedFrom, createdAt, 'earlier traffic was not counted')
    assert.equal(resetsAt, new Date(Math.floor(core.clock() / day + 1) * day).toISOString())
    const same = await set(key, { planId, period: 'day', limitBytes: gigabyte, timeZone: 'utc' })
    assert.deepEqual([same.status, same.body], [200, created.body])
    const terms = { limitBytes: 2 * gigabyte, timeZone: 'europe/berlin' }
    const changed = await set(key, { planId, period: 'day', ...terms })
    assert.equal(changed.status, 200, changed.text)
    assert.deepEqual(
      [changed.body.id, changed.body.limitBytes, changed.body.timeZone, changed.body.createdAt],
      [id, 2 * gigabyte, 'Europe/Berlin', createdAt],
    )
    const monthly = await set(key, { planId, period: 'month', limitBytes: gigabyte, timeZone: 'EST' })
    assert.deepEqual([monthly.status, monthly.body.timeZone], [201, 'EST'])
    const sameZone = { planId, period: 'month', limitBytes: gigabyte, timeZone: 'America/Panama' }
    assert.deepEqual((await set(key, sameZone)).body, monthly.body, 'another name of its zone is no change')
    assert.deepEqual(await list(key), [monthly.body.id, id])
    assert.deepEqual((await client.get(`${path}/${id}`, { key })).body, changed.body)
  })

  await t.test('limits a line set or a whitelist entry of the plan, and no others', async () => {
    const { key, planId } = await newBuyer()
    const { planId: otherPlan } = await newBuyer()
    const targeting = { country: 'us' } as unknown as Targeting
    const lineSets = createLineSets(core)
    const lineSet = await lineSets.store(planId, targeting)
    const whitelisted = await done(
      client.post(`/api/v1/plans/${planId}/whitelist`, { entries: [{ cidr: '8.8.4.1' }] }, { key }),
    )
    const whitelistEntryId: string = whitelisted.body.whitelist[0].id
    const terms = { period: 'week', limitBytes: gigabyte }
    const ofSet = await set(key, { planId, lineSet, ...terms })
    assert.deepEqual([ofSet.status, ofSet.body.scope, ofSet.body.lineSet], [201, 'line_set', lineSet])
    const ofEntry = await set(key, { planId, whitelistEntryId, ...terms })
    assert.deepEqual(
      [ofEntry.status, ofEntry.body.scope, ofEntry.body.whitelistEntryId],
      [201, 'whitelist_entry', whitelistEntryId],
    )
    assert.equal(new Date(ofSet.body.resetsAt).getUTCDay(), 1, 'a week begins on Monday')
    assert.deepEqual(await list(key, `?plan_id=${planId}`), [ofEntry.body.id, ofSet.body.id])
    assert.deepEqual(await list(key, `?plan_id=${otherPlan}`), [])

    const refusals: readonly (readonly [object, number, RegExp])[] = [
      [{ planId, lineSet: 'unknown0' }, 404, /line set/],
      [{ planId, whitelistEntryId: 'wle_unknown' }, 404, /whitelist/],
      [{ planId, lineSet, whitelistEntryId }, 400, /exclude each other/],
      [{ lineSet }, 400, /must have the planId of a lineSet/],
      [{}, 400, /planId is missing: send the id of a plan/],
      [{ planId: otherPlan }, 404, /no plan has this id/],
      [{ planId, period: 'year' }, 400, /day.*week.*month/],
      [{ planId, timeZone: 'Mars/Olympus' }, 400, /timeZone must be a time zone .* Europe\/Berlin/],
      [{ planId, timeZone: '+02:00' }, 400, /timeZone/],
      [{ planId, limitBytes: 999_999 }, 400, /limitBytes.*1000000/],
      [{ planId, limitBytes: 1e15 + 1 }, 400, /limitBytes/],
      [{ planId, limitBytes: 1_000_000.5 }, 400, /limitBytes/],
    ]
    for (const [json, status, message] of refusals) {
      const refused = await set(key, { ...terms, ...json })
      assert.equal(refused.status, status, refused.text)
      assert.match(refused.body.error, message)
    }
    assert.equal((await list(key)).length, 2)

    const entries = `/api/v1/plans/${planId}/whitelist`
    await done(client.call('DELETE', `${entries}/${whitelistEntryId}`, { key }))
    const again = await done(client.post(entries, { entries: [{ cidr: '8.8.4.1' }] }, { key }))
    assert.equal(again.body.whitelist[0].id, whitelistEntryId, 'its budget limits it again')
  })

  await t.test('shows the traffic since the start of the period or a later reset', async () => {
    const { key, planId } = await newBuyer()
    const budget = (await set(key, { planId, period: 'month', limitBytes: gigabyte })).body
    const read = async () => (await done(client.get(`${path}/${budget.id}`, { key }))).body
    await use(budget, 600_000_000)
    assert.deepEqual(await read(), { ...budget, usedBytes: 600_000_000, remainingBytes: 400_000_000 })
    const reset = await done(client.post(`${path}/${budget.id}/reset`, undefined, { key }))
    assert.ok(reset.body.countedFrom > budget.countedFrom)
    const { countedFrom } = reset.body
    assert.deepEqual(reset.body, { ...budget, countedFrom })
    await use(reset.body, 1_100_000_000)
    const over = await read()
    assert.deepEqual([over.usedBytes, over.remainingBytes], [1_100_000_000, 0])

    const removed = await client.call('DELETE', `${path}/${budget.id}`, { key })
    assert.equal(removed.status, 204)
    for (const [method, of] of [
      ['GET', ''],
      ['POST', '/reset'],
      ['DELETE', ''],
    ] as const) {
      const { status, body } = await client.call(method, `${path}/${budget.id}${of}`, { key })
      assert.deepEqual([status, body.code], [404, 'not_found'], method)
    }
    const again = await set(key, { planId, period: 'month', limitBytes: 2 * gigabyte })
    assert.deepEqual(
      [again.status, again.body.id, again.body.usedBytes, again.body.countedFrom],
      [201, budget.id, 0, again.body.createdAt],
      'a budget that is set again counts from then on',
    )
    assert.ok(again.body.countedFrom > countedFrom)
  })

  await t.test('is hidden from other accounts, and only its account changes it', async () => {
    const owner = await newBuyer()
    const other = await newBuyer()
    const budget = (await set(owner.key, { planId: owner.planId, period: 'day', limitBytes: gigabyte })).body
    for (const [method, of] of [
      ['GET', ''],
      ['POST', '/reset'],
      ['DELETE', ''],
    ] as const) {
      const sent = await client.call(method, `${path}/${budget.id}${of}`, { key: other.key })
      assert.deepEqual([sent.status, sent.body.code], [404, 'not_found'], method)
    }
    assert.deepEqual(await list(other.key), [])
    assert.deepEqual(await list(other.key, `?plan_id=${owner.planId}`), [])
    assert.deepEqual((await client.get(`${path}/${budget.id}`, { key: owner.key })).body, budget)
  })

  await t.test('a plan has at most a hundred budgets', async () => {
    const { key, planId } = await newBuyer()
    const lineSets = createLineSets(core)
    const countries = Array.from({ length: 34 }, (_, n) => `c${n}`)
    const sets = await Promise.all(
      countries.map((country) => lineSets.store(planId, { country } as unknown as Targeting)),
    )
    const requests = sets
      .flatMap((lineSet) => ['day', 'week', 'month'].map((period) => ({ lineSet, period })))
      .slice(0, 101)
    const [first, last] = [requests[0], requests.pop()]
    await Promise.all(requests.map((json) => done(set(key, { planId, limitBytes: gigabyte, ...json }))))
    const refused = await set(key, { planId, limitBytes: gigabyte, ...last })
    assert.deepEqual([refused.status, refused.body.code], [409, 'traffic_budget_limit_reached'])
    const changed = await set(key, { planId, limitBytes: 2 * gigabyte, ...first })
    assert.equal(changed.status, 200, changed.text)
  })
})

test('a reseller limits the traffic of its customers', async (t) => {
  const app = await opened(t)
  const { client, customer, buy, set, list } = app
  const { accountId, key } = await customer({ cents: 50_000, reseller: true })
  await app.payCustomer(accountId, 'anna', 5_000)
  const annasPlan = await buy(key, 'anna')
  const ownPlan = await buy(key)
  const terms = { period: 'month', limitBytes: gigabyte }

  const all = await set(key, terms, 'anna')
  assert.equal(all.status, 201, all.text)
  assert.deepEqual([all.body.scope, all.body.planId, all.body.customer], ['customer', null, 'anna'])
  const ofPlan = await set(key, { ...terms, planId: annasPlan })
  assert.deepEqual([ofPlan.status, ofPlan.body.customer], [201, 'anna'], ofPlan.text)
  const own = await set(key, { ...terms, planId: ownPlan })
  assert.deepEqual([own.status, own.body.customer], [201, null], own.text)
  const first = await set(key, terms, 'a new customer')
  assert.deepEqual([first.status, first.body.customer], [201, 'a new customer'], first.text)

  assert.deepEqual(
    await list(key),
    [first, own, ofPlan, all].map(({ body }) => body.id),
  )
  assert.deepEqual(await list(key, '', 'anna'), [ofPlan.body.id, all.body.id])
  assert.deepEqual(await list(key, '', 'another customer'), [])
  assert.deepEqual(await list(key, `?plan_id=${annasPlan}`), [ofPlan.body.id, all.body.id])
  assert.deepEqual(await list(key, `?plan_id=${ownPlan}`), [own.body.id])

  await t.test('a request for a customer neither reads nor changes budgets of others', async () => {
    for (const budget of [own.body, first.body])
      for (const [method, of] of [
        ['GET', ''],
        ['POST', '/reset'],
        ['DELETE', ''],
      ] as const) {
        const headers = asCustomer('anna')
        const sent = await client.call(method, `${path}/${budget.id}${of}`, { key, headers })
        assert.deepEqual([sent.status, sent.body.code], [404, 'not_found'], method)
      }
    const refused = await set(key, { ...terms, planId: ownPlan }, 'anna')
    assert.deepEqual([refused.status, refused.body.code], [404, 'not_found'])
    assert.deepEqual((await list(key)).length, 4)
  })

  await t.test('a refused request creates no customer', async () => {
    const refused = await set(key, { ...terms, planId: ownPlan }, 'bert')
    assert.equal(refused.status, 404)
    const { body } = await done(client.get('/api/v1/reseller/customers', { key }))
    assert.deepEqual(body.customers.map(({ customer }: { customer: string }) => customer).sort(), [
      'a new customer',
      'anna',
    ])
  })

  await t.test('a key of no reseller names no customer', async () => {
    const buyer = await customer({ cents: 0 })
    const refused = await set(buyer.key, terms, 'anna')
    assert.deepEqual([refused.status, refused.body.code], [403, 'reseller_forbidden'])
  })
})

test('an operator limits traffic on the command line', async (t) => {
  const app = await opened(t)
  const { client, run, cli, customer, buy, newBuyer, list } = app
  const { accountId, key, planId } = await newBuyer()
  await app.caughtUp()
  const terms = ['--period', 'day', '--limit-bytes', String(gigabyte)]
  const setOf = (account: string, ...more: readonly string[]) => [
    ...['traffic-budgets', 'set', '--account', account],
    ...terms,
    ...more,
  ]
  const created = await run(...setOf(accountId, '--plan', planId, '--time-zone', 'Asia/Tokyo'))
  const { id } = created
  assert.deepEqual(created, {
    id,
    isNew: true,
    accountId,
    period: 'day',
    timeZone: 'Asia/Tokyo',
    limitBytes: gigabyte,
  })
  assert.equal((await run(...setOf(accountId, '--plan', planId))).isNew, false)
  await app.caughtUp()
  const record = (await done(client.get(`${path}/${id}`, { key }))).body
  assert.deepEqual(await run('traffic-budgets', 'list', '--account', accountId, '--plan', planId), {
    accountId,
    trafficBudgets: [record],
    total: 1,
    limit: 50,
    offset: 0,
  })
  const { out } = await cli.text('traffic-budgets', 'list', '--account', accountId)
  assert.match(out, /^BUDGET +SCOPE +PLAN .* LIMIT +USED +COUNTED FROM/)
  assert.match(out, new RegExp(`^${id} +plan +${planId} .* 1,000,000,000 +0 `, 'm'))

  await run('traffic-budgets', 'reset', id)
  await app.caughtUp()
  const reset = (await done(client.get(`${path}/${id}`, { key }))).body
  assert.ok(reset.countedFrom > record.countedFrom)
  await run('traffic-budgets', 'remove', id)
  await app.caughtUp()
  assert.deepEqual(await list(key), [])

  const reseller = await customer({ cents: 10_000, reseller: true })
  const ofCustomer = await run(...setOf(reseller.accountId, '--customer', 'anna'))
  await app.caughtUp()
  assert.deepEqual(await list(reseller.key, '', 'anna'), [ofCustomer.id])

  const own = await buy(reseller.key)
  await app.caughtUp()
  for (const [misused, message] of [
    [setOf(accountId), /give --plan or --customer/],
    [setOf(reseller.accountId, '--customer', 'anna', '--plan', own), /not both/],
    [setOf(accountId, '--customer', 'anna'), /is not a reseller/],
    [setOf(accountId, '--plan', own), /the account has no plan with the id/],
    [setOf(accountId, '--plan', planId, '--time-zone', 'Mars/Olympus'), /time zone/],
    [setOf(accountId, '--plan', planId, '--period', 'year'), /day, week, month/],
  ] as const) {
    const { code, err } = await cli(...misused)
    assert.equal(code, 2, misused.join(' '))
    assert.match(err, message)
  }
})
