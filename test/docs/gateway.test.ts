import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseUsername } from '../../src/domain/exits/line.ts'
import { placeholders } from '../../src/domain/exits/username-template.ts'
import { startRealWorker } from '../gateway/support/real-worker.ts'
import { ownPort } from '../support/own-port.ts'
import { blocksOf, pageOf, pageShell } from '../support/page-shell.ts'
import { testApp } from '../support/test-app.ts'
import { until } from '../support/until.ts'

const guide = pageOf('docs/guides/proxy-lines.md')
const page = pageOf('docs/operations/gateway.md')

const settings = { FAREBOX_GATEWAY_PORT: String(await ownPort()) }

test('the steps from an order to a request work, over HTTP and SOCKS5', async (t) => {
  const app = await testApp(t, { own: 'file', settings })
  await startRealWorker(t, app, settings)
  const { buyer } = app
  await until(async () => (await buyer.get('/api/v1/geo/countries')).body.total > 10, { what: 'the exits' })
  const [steps = ''] = blocksOf(guide)
  const shell = await pageShell(t, { env: { API: `${app.baseUrl}/api/v1`, KEY: app.demo.buyer.key } })
  const { stdout } = await shell(steps)
  assert.equal(stdout.match(/"exit":"sandbox-us-\d","country":"us"/g)?.length, 2, stdout)
  const [, planId = ''] = /"planId":"(pln_\w+)"/.exec(stdout) ?? []
  const used = async () => (await buyer.get(`/api/v1/plans/${planId}`)).body.bytesUsed
  await until(async () => (await used()) > 400, { what: 'the bytes of two requests' })
})

// After the requests, which would go out of these exits, too.
test('the commands of the gateway page run as printed', async (t) => {
  const blocks = blocksOf(page)
  assert.equal(blocks.length, 3)
  const [, exits = '', stock = ''] = blocks
  const { env } = await testApp(t, { own: 'file', settings })

  const shell = await pageShell(t, { env, cwd: env.FAREBOX_DATA })

  await t.test('exits', async () => {
    const { stdout } = await shell(exits)
    assert.match(stdout, /4 exits: 4 added, 0 changed, 0 as before/)
    assert.match(stdout, /removed 1 exit/)
  })

  await t.test('stock of suppliers', async () => {
    const { stdout } = await shell(stock)
    assert.match(stdout, /added 1 address to isp-static in USA\nadded 1 address to ipv6-datacenter in DEU/)
  })
})

test('the pages list every key of usernames and every placeholder, and the example is valid', () => {
  const refused = parseUsername('u7k2m9x4-nothing-1')
  assert.ok(!refused.ok)
  const keys = refused.problem.detail.split(' are ')[1]?.split(', ') ?? []
  assert.ok(keys.length > 10)
  for (const name of keys) assert.ok(guide.includes(`\`${name}\``), name)
  for (const name of placeholders) assert.ok(page.includes(`\`{${name}}\``), name)
  const [example = ''] = /u7k2m9x4-[^\n]+/.exec(guide) ?? []
  assert.ok(parseUsername(example).ok, example)
})
