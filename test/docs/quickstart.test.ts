import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { promisify } from 'node:util'
import { startRealWorker } from '../gateway/support/real-worker.ts'
import { ownPort } from '../support/own-port.ts'
import { type TestApp, testApp } from '../support/test-app.ts'
import { until } from '../support/until.ts'

const root = join(import.meta.dirname, '../..')
const page = await readFile(join(root, 'docs/quickstart.md'), 'utf8')

const programIn = (heading: string, language: string): string => {
  const section = page.slice(page.indexOf(`## ${heading}\n`))
  return new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``).exec(section)?.[1] ?? assert.fail(heading)
}

const languages = [
  {
    name: 'curl',
    needs: 'curl',
    command: 'bash',
    args: ['-euo', 'pipefail', '-c'],
    code: programIn('curl', 'sh'),
  },
  {
    name: 'JavaScript',
    needs: process.execPath,
    command: process.execPath,
    args: ['--input-type=module', '-e'],
    code: programIn('JavaScript', 'js'),
  },
  { name: 'Python', needs: 'python3', command: 'python3', args: ['-c'], code: programIn('Python', 'python') },
]

/** A webhook as the shell program finds it: the secret and signature in variables, the raw body in `body.json`. */
const receiveWebhook = async ({ buyer }: TestApp, folder: string) => {
  const receiver = createServer(async (request, response) => {
    await writeFile(join(folder, 'body.json'), Buffer.concat(await request.toArray()))
    response.end()
    receiver.emit('webhook', request.headers['x-service-signature'])
  }).listen(0, '127.0.0.1')
  await once(receiver, 'listening')
  const { port } = receiver.address() as { port: number }
  const received = once(receiver, 'webhook')
  const { body } = await buyer.post('/api/v1/webhooks', {
    url: `http://127.0.0.1:${port}/`,
    events: ['order.refunded'],
  })
  await buyer.post(`/api/v1/webhooks/${body.id}/test`, {})
  const [signature] = await received
  receiver.close()
  return { SIGNATURE: String(signature), SECRET: String(body.secret) }
}

describe('the quickstart', () => {
  test('runs in every language from a price to a verified webhook', async (t) => {
    const settings = {
      FAREBOX_GATEWAY_PORT: String(await ownPort()),
      // As on the demo that `npm start` starts.
      FAREBOX_WEBHOOK_ALLOW_LOOPBACK: '',
    }
    const app = await testApp(t, { own: true, settings })
    await startRealWorker(t, app, settings)
    const { buyer, baseUrl, demo } = app
    await until(async () => (await buyer.get('/api/v1/geo/countries')).body.total > 10, { what: 'the exits' })
    const folder = await mkdtemp(join(tmpdir(), 'farebox-quickstart-'))
    t.after(() => rm(folder, { recursive: true }))
    const webhook = await receiveWebhook(app, folder)
    for (const { name, needs, command, args, code } of languages) {
      const missing = spawnSync(needs, ['--version']).error !== undefined
      await t.test(name, { skip: missing && `${needs} is not on this machine` }, async () => {
        const port = String(await ownPort())
        const program = code.replaceAll('4000', port).replaceAll('curl -s ', 'curl -sS --fail-with-body ')
        const { stdout } = await promisify(execFile)(command, [...args, program], {
          // JavaScript finds the package undici from the root, the shell program finds body.json in its folder.
          cwd: name === 'curl' ? folder : root,
          env: { ...process.env, ...webhook, API: `${baseUrl}/api/v1`, KEY: demo.buyer.key },
        }).catch((error) => assert.fail(`${error.stdout}${error.stderr}`))
        assert.match(stdout, /"exit":"sandbox-us-\d","country":"us"/)
        assert.match(stdout, /webhook is valid/)
        assert.match(stdout, /pln_|GB left/)
      })
    }
    const orders = await buyer.get('/api/v1/orders')
    const installed = languages.filter(({ needs }) => spawnSync(needs, ['--version']).error === undefined)
    assert.equal(orders.body.total, installed.length)
  })

  test('the Python program ends if no webhook arrives', {
    skip: spawnSync('python3', ['--version']).error !== undefined && 'python3 is not on this machine',
  }, () => {
    const program = programIn('Python', 'python')
    const receive = program.split(/^# 7.*\n/m)[1] ?? assert.fail('step 7')
    assert.match(receive, /^receiver\.timeout = 30$/m)
    const { status, stderr } = spawnSync(
      'python3',
      [
        '-c',
        `${program.slice(0, program.indexOf('API, KEY'))}call = lambda path, body: {"id": "x", "secret": "s"}
${receive.replace('4000', '0').replace('timeout = 30', 'timeout = 0.1')}`,
      ],
      { encoding: 'utf8', timeout: 60_000 },
    )
    assert.deepEqual([status, stderr], [1, 'no webhook in 30 seconds\n'])
  })

  test('the check of the shell fails without body, secret or signature', async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'farebox-quickstart-'))
    t.after(() => rm(folder, { recursive: true }))
    const check = programIn('curl', 'sh').split(/^# 7.*\n/m)[1] ?? assert.fail('step 7')
    const outputOf = (env: NodeJS.ProcessEnv): string =>
      spawnSync('bash', ['-c', check], {
        cwd: folder,
        env: { PATH: process.env.PATH, ...env },
        encoding: 'utf8',
      }).stdout
    const SECRET = 'whsec_dGVzdA=='
    const SIGNATURE = createHmac('sha256', SECRET).update('{}').digest('hex')
    const unsigned = createHmac('sha256', '').update('{}').digest('hex')
    assert.equal(outputOf({ SECRET }), '', 'no body and no signature')
    await writeFile(join(folder, 'body.json'), '{}')
    assert.equal(outputOf({ SECRET, SIGNATURE }), 'webhook is valid\n')
    for (const env of [{ SECRET }, { SIGNATURE: unsigned }, { SECRET, SIGNATURE: unsigned }, {}])
      assert.equal(outputOf(env), '', JSON.stringify(env))
  })
})
