import assert from 'node:assert/strict'
import { after, before, describe, type TestContext, test } from 'node:test'
import { requests, traffic } from '../../../src/features/plans/run-commands.ts'
import { createMeteringHour } from '../../../src/gateway/admit/budgets.ts'
import { createRequestRecords, type RequestRecord } from '../../../src/gateway/admit/record-requests.ts'
import { createReporter } from '../../../src/gateway/admit/reporter.ts'
import type { PlanId } from '../../../src/kernel/ids.ts'
import type { CliContext } from '../../../src/platform/cli/cli-context.ts'
import type { Customer } from '../../support/app-actions.ts'
import { signedIn } from '../../support/console.ts'
import { type TestApp, testApp } from '../../support/test-app.ts'
import { buyPlan, meter } from '../webhooks/causes.ts'

describe('what used the traffic of a plan', () => {
  let app: TestApp
  let owner: Customer
  let other: Customer
  let planId: string
  const ends: (() => unknown)[] = []

  before(async () => {
    app = await testApp({ after: (end: () => unknown) => void ends.unshift(end) } as unknown as TestContext)
    owner = await app.customer({ cents: 10_000 })
    other = await app.customer({ cents: 10_000 })
    planId = (await buyPlan(app, owner)).planId
    const { pool, clock } = app.core
    const meteringHour = createMeteringHour(clock)
    const records = createRequestRecords({
      pool,
      clock,
      reporter: createReporter({ name: 'records-test', onRefused: assert.fail }),
      hosts: 'full',
      meteringHour,
    })
    const add = (over: Partial<RequestRecord>): void =>
      records.add({
        planId,
        hour: meteringHour.current(),
        requestId: 'req_none',
        protocol: 'connect',
        line: 'user-country-us',
        host: 'www.example.com',
        port: 443,
        country: 'us',
        up: 100,
        down: 1_000,
        durationMs: 12,
        reason: null,
        ...over,
      })
    for (let at = 0; at < 7; at += 1) add({ requestId: `req_${at}` })
    add({ requestId: 'req_de', host: 'big.example', country: 'de', line: 'user-country-de', down: 50_000 })
    add({
      requestId: 'req_slow',
      host: 'slow.example',
      country: null,
      up: 0,
      down: 0,
      reason: 'target_timeout',
    })
    for (let at = 0; at < 12; at += 1)
      add({ requestId: `req_h${at}`, host: `h${at}.example`, up: 0, down: 1 })
    meteringHour.batchTaken()
    meteringHour.batchReported()
    await records.flush()
    // All recorded bytes, and 500 that are in no record.
    await meter(app, planId, 7 * 1_100 + 50_100 + 12 + 500)
  })
  after(async () => {
    for (const end of ends) await end()
  })

  const get = (path: string, { key } = owner) => app.client.get(`/api/v1/plans/${planId}${path}`, { key })
  const idsOf = async (query: string): Promise<readonly string[]> => {
    const { status, body, text } = await get(`/requests${query}`)
    assert.equal(status, 200, text)
    return body.requests.map(({ requestId }: { requestId: string }) => requestId)
  }

  test('requests are listed page by page, each once', async () => {
    const seen: string[] = []
    let cursor = ''
    for (let pages = 0; pages < 10; pages += 1) {
      const { body } = await get(`/requests?limit=4${cursor}`)
      assert.ok(body.requests.length <= 4)
      seen.push(...body.requests.map(({ requestId }: { requestId: string }) => requestId))
      if (body.nextCursor === null) break
      cursor = `&cursor=${body.nextCursor}`
    }
    assert.equal(seen.length, 21)
    assert.equal(new Set(seen).size, 21)
  })

  test('requests are filtered by host, exit country, reason, id and time', async () => {
    assert.deepEqual(await idsOf('?host=BIG.example'), ['req_de'])
    assert.deepEqual(await idsOf('?country=DE'), ['req_de'])
    assert.deepEqual(await idsOf('?reason=target_timeout'), ['req_slow'])
    assert.equal((await idsOf('?reason=none')).length, 20)
    assert.deepEqual(await idsOf('?request_id=req_3'), ['req_3'])
    const now = app.core.clock()
    assert.deepEqual(await idsOf(`?since=${new Date(now + 60_000).toISOString()}`), [])
    assert.deepEqual(await idsOf(`?until=${new Date(now - 3_600_000).toISOString()}`), [])
    for (const query of ['cursor=nonsense', 'country=USA', 'limit=0', 'limit=501', 'since=yesterday'])
      assert.equal((await get(`/requests?${query}`)).status, 400, query)
  })

  test('the traffic by host, country, hour and line adds up to the metered bytes exactly', async () => {
    for (const groupBy of ['host', 'country', 'hour', 'line']) {
      const { body } = await get(`/traffic?group_by=${groupBy}`)
      const sums = [...body.groups, body.otherGroups, body.merged]
      const recorded = sums.reduce((sum, { bytesUp, bytesDown }) => sum + bytesUp + bytesDown, 0)
      assert.equal(body.unrecordedBytes, 500, groupBy)
      assert.equal(recorded + body.unrecordedBytes, body.meteredBytes, groupBy)
      assert.deepEqual(body.reasons, [{ reason: 'target_timeout', count: 1 }])
    }
    const { body } = await get('/traffic')
    assert.deepEqual(body.groups[0], {
      value: 'big.example',
      bytesUp: 100,
      bytesDown: 50_000,
      requests: 1,
      failures: 0,
    })
    for (const query of ['group_by=nothing', 'since=2026-01-01&until=2025-01-01', 'since=2020-01-01'])
      assert.equal((await get(`/traffic?${query}`)).status, 400, query)
  })

  test('only the account of the plan can read its records', async () => {
    for (const path of ['/requests', '/traffic']) assert.equal((await get(path, other)).status, 404, path)
    const browser = await signedIn(app, other.accountId)
    assert.equal((await browser.get(`/console/plans/${planId}/traffic`)).status, 404)
  })

  test('the page shows the ten hosts with the most traffic, failures by reason, and requests', async () => {
    const browser = await signedIn(app, owner.accountId)
    const { html: plan } = await browser.get(`/console/plans/${planId}`)
    const here = `/console/plans/${planId}/traffic`
    assert.match(plan, new RegExp(`href="${here}"`))
    const { html, status } = await browser.get(here)
    assert.equal(status, 200)
    assert.match(html, /<svg class="bars"/)
    const [hosts = ''] = /<h2>Hosts with the most traffic[\s\S]*?<h2>Failures/.exec(html) ?? []
    assert.ok(hosts.indexOf('big.example') < hosts.indexOf('www.example.com'))
    assert.equal([...hosts.matchAll(/\.example(?:\.com)?</g)].length, 10)
    assert.match(hosts, /all other hosts/)
    assert.match(hosts, /in progress or not recorded[\s\S]*?500 B/)
    assert.match(html, /<code>target_timeout<\/code>/)
    const filtered = await browser.get(`${here}?reason=target_timeout`)
    assert.match(filtered.html, /slow\.example:443/)
    assert.doesNotMatch(filtered.html, /www\.example\.com:443/)
    const file = await browser.get(`${here}?format=csv`)
    assert.match(file.html, /big\.example:443/)
  })

  test('the command line lists requests and sums, aligned and as JSON', async () => {
    const listed = await app.run('plans', 'requests', planId, '--host', 'big.example')
    assert.equal(listed.requests[0].requestId, 'req_de')
    const json = await app.run('plans', 'traffic', planId, '--by', 'country')
    assert.equal(json.unrecordedBytes, 500)
    const context = app.core as unknown as CliContext
    const plan = planId as PlanId
    const { text } = await traffic(context, { plan, by: 'host', hours: 24 })
    assert.match(text, /^HOST +BYTES +REQUESTS +FAILURES\nbig\.example +50100 +1 +0\n/)
    assert.match(text, /\n\(in progress or not recorded\) +500 +- +-\n/)
    const rows = await requests(context, { plan, limit: 1, host: 'big.example' })
    assert.match(rows.text, /^ENDED AT +PROTOCOL +TARGET [\s\S]* big\.example:443 +de +100 +50000 +12 /)
    const unknown = await app.cli('plans', 'requests', 'pln_unknown')
    assert.notEqual(unknown.code, 0)
  })
})
