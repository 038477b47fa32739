import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { parseUsername } from '../../src/domain/exits/line.ts'
import { placeholders } from '../../src/domain/exits/username-template.ts'
import { startRealWorker } from '../gateway/support/real-worker.ts'
import { ownPort } from '../support/own-port.ts'
import { testApp } from '../support/test-app.ts'
import { until } from '../support/until.ts'

const root = join(import.meta.dirname, '../..')
const guide = readFileSync(join(root, 'docs/guides/proxy-lines.md'), 'utf8')
const page = readFileSync(join(root, 'docs/operations/gateway.md'), 'utf8')

/** The blocks of a page that a reader copies into a shell. */
const blocksOf = (text: string): readonly string[] =>
  [...text.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, block = '']) => block)

test('the commands of the gateway page run as printed', async (t) => {
  const blocks = blocksOf(page)
  assert.equal(blocks.length, 3)
  const [start = '', exits = '', stock = ''] = blocks
  const { env } = await testApp(t, { own: true, settings: { FAREBOX_SANDBOX: 'off' } })

  await t.test('a separate gateway', async (t) => {
    const port = await ownPort()
    const command = start.replace('bin/run-node ', `exec '${process.execPath}' `)
    const gateway = spawn('bash', ['-euo', 'pipefail', '-c', command], {
      cwd: root,
      env: { ...process.env, ...env, FAREBOX_GATEWAY_PORT: String(port), FAREBOX_GATEWAY_WORKERS: '1' },
    })
    const ended = once(gateway, 'exit')
    t.after(() => gateway.kill('SIGKILL'))
    let output = ''
    for (const stream of [gateway.stdout, gateway.stderr])
      stream.on('data', (chunk) => {
        output += chunk
      })
    const line = new RegExp(`^Farebox's gateway listens on 0\\.0\\.0\\.0, port ${port}$`, 'm')
    const listens = () => line.test(output)
    await until(() => listens() || gateway.exitCode !== null, { timeoutMs: 60_000, what: 'the gateway' })
    assert.ok(listens(), output)
    gateway.kill('SIGTERM')
    assert.deepEqual(await ended, [0, null], output)
  })

  const run = async (block: string): Promise<string> => {
    const script = block.replaceAll('npx farebox', `'${process.execPath}' '${join(root, 'src/cli.ts')}'`)
    const { stdout } = await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', script], {
      cwd: env.FAREBOX_DATA,
      env: { ...process.env, ...env },
    }).catch((error) => assert.fail(`${error.stdout}${error.stderr}`))
    return stdout
  }

  await t.test('exits', async () => {
    const stdout = await run(exits)
    assert.match(stdout, /4 exits: 4 added, 0 changed, 0 as before/)
    assert.match(stdout, /removed 1 exit/)
  })

  await t.test('stock of suppliers', async () => {
    const stdout = await run(stock)
    assert.match(stdout, /added 1 address to isp-static in USA\nadded 1 address to ipv6-datacenter in DEU/)
  })
})

test('the steps from an order to a request work, over HTTP and SOCKS5', async (t) => {
  const settings = { FAREBOX_GATEWAY_PORT: String(await ownPort()) }
  const app = await testApp(t, { own: true, settings })
  await startRealWorker(t, app, settings)
  const { buyer } = app
  await until(async () => (await buyer.get('/api/v1/geo/countries')).body.total > 10, { what: 'the exits' })
  const [steps = ''] = blocksOf(guide)
  const { stdout } = await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', steps], {
    env: { ...process.env, API: `${app.baseUrl}/api/v1`, KEY: app.demo.buyer.key },
  }).catch((error) => assert.fail(`${error.stdout}${error.stderr}`))
  assert.equal(stdout.match(/"exit":"sandbox-us-\d","country":"us"/g)?.length, 2, stdout)
  const [, planId = ''] = /"planId":"(pln_\w+)"/.exec(stdout) ?? []
  const used = async () => (await buyer.get(`/api/v1/plans/${planId}`)).body.bytesUsed
  await until(async () => (await used()) > 400, { what: 'the bytes of two requests' })
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
