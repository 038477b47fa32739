import { createHmac, randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Stripe from 'stripe'
import { openFarebox, roles } from '../src/app.ts'
import { readConfig } from '../src/config.ts'
import { createLogger } from '../src/http/logging.ts'
import { startEmbeddedPostgres } from '../src/postgres/embedded.ts'
import { deriveKey } from '../src/vault/master-key.ts'

/**
 * Callbacks a second that the service absorbs: signature checked over the raw bytes, stored durably, answered; and deposits
 * a second that are paid, called back, looked up at the provider's stand-in (in this process too) and credited.
 * `node bench/callbacks.ts [callbacks] [deposits]`
 */
const callbacks = Number(process.argv[2] ?? 5_000)
const deposits = Number(process.argv[3] ?? 300)
const clients = 32

const dataDir = await mkdtemp(join(tmpdir(), 'farebox-bench-callbacks-'))
const postgres = await startEmbeddedPostgres({ dataDir, role: 'benchmark' })
const config = readConfig({
  DATABASE_URL: postgres.url,
  FAREBOX_DATA: dataDir,
  FAREBOX_RATE_LIMIT: 'off',
  FAREBOX_MASTER_KEY: randomBytes(32).toString('base64'),
  FAREBOX_SEAL_KEY: randomBytes(32).toString('base64'),
  LOG_LEVEL: 'fatal',
  PORT: '0',
})
const farebox = await openFarebox({
  config,
  roles,
  systemClock: Date.now,
  monotonicMs: () => performance.now(),
  logger: createLogger('fatal'),
  kill: () => process.exit(1),
})
const print = (line: string): void => void process.stdout.write(`${line}\n`)

/** Runs `one` for each number with some at once; prints a rate by the clock and by the CPU of this process. */
const measure = async (
  what: string,
  count: number,
  one: (n: number) => Promise<void>,
  until?: () => Promise<void>,
) => {
  let next = 0
  const worker = async (): Promise<void> => {
    while (next < count) await one(next++)
  }
  const startedMs = performance.now()
  const cpu = process.cpuUsage()
  await Promise.all(Array.from({ length: clients }, worker))
  await until?.()
  const seconds = (performance.now() - startedMs) / 1000
  const { user, system } = process.cpuUsage(cpu)
  const cpuUs = Math.round((user + system) / count)
  print(`${what}: ${Math.round(count / seconds)}/s, ${cpuUs} µs of CPU each (clients and stand-in included)`)
}

try {
  const { baseUrl, demo, core } = farebox
  if (baseUrl === null || demo === null) throw new Error('no address or no demo')
  const { buyer, sandbox } = demo.demo
  const secret = `whsec_${createHmac('sha256', deriveKey(core.keys.master, 'sandbox gateways v1'))
    .update(JSON.stringify(['sandbox-stripe', 'webhook']))
    .digest('hex')}`
  const stripe = new Stripe('sk_test_unused')
  const post = async (url: string, body: string, headers: Record<string, string>) => {
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body,
    })
    const text = await response.text()
    if (response.status !== 200) throw new Error(`${response.status} ${text}`)
    return text
  }
  const signed = (payload: string) => ({
    'stripe-signature': stripe.webhooks.generateTestHeaderString({ payload, secret }),
  })
  const object = { object: 'checkout.session', id: 'cs_test_of_nobody', padding: 'x'.repeat(2_000) }
  const event = (id: string): string =>
    JSON.stringify({ id, object: 'event', type: 'checkout.session.completed', data: { object } })
  const url = `${baseUrl}/callbacks/sandbox-stripe`

  await measure('callbacks absorbed, each another event', callbacks, async (n) => {
    const payload = event(`evt_${n}`)
    await post(url, payload, signed(payload))
  })
  await measure('callbacks absorbed, one event again and again', callbacks, async () => {
    const payload = event('evt_same')
    await post(url, payload, signed(payload))
  })
  await measure(
    'deposits opened, paid, called back and credited',
    deposits,
    async () => {
      const made = await post(`${baseUrl}/api/v1/deposits`, '{"amount_cents":1000}', {
        'x-api-key': buyer.key,
      })
      await post(`${sandbox}/_sandbox/invoices/${JSON.parse(made).deposit_id}/pay`, '{}', {})
    },
    async () => {
      const paid = async () =>
        (
          await core.pool.query<{ n: number }>(
            "select count(*)::integer as n from read.deposits where status = 'paid'",
          )
        ).rows[0]?.n ?? 0
      while ((await paid()) < deposits) await new Promise((resolve) => setTimeout(resolve, 20))
    },
  )
} finally {
  await farebox.close()
  await postgres.stop()
  await rm(dataDir, { recursive: true, force: true })
}
