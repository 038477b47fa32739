import { createHmac } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Stripe from 'stripe'
import { readConfig } from '../src/app/config.ts'
import { type Farebox, openFarebox, roles } from '../src/app/start.ts'
import { createLogger } from '../src/platform/http/logging.ts'
import { deriveKey } from '../src/platform/vault/keys.ts'
import { type Bench, type BenchContext, cpuMs, figure } from './bench.ts'
import { withDatabase, withLogOf } from './database.ts'
import { serverSettings } from './orders/server.ts'

const clients = 32

/** Runs `one` for each number with some at once; gives a rate and the CPU of this process for each. */
const measure = async (count: number, one: (n: number) => Promise<void>, until?: () => Promise<void>) => {
  let next = 0
  const worker = async (): Promise<void> => {
    while (next < count) await one(next++)
  }
  const startedMs = performance.now()
  const before = cpuMs()
  await Promise.all(Array.from({ length: clients }, worker))
  await until?.()
  const seconds = (performance.now() - startedMs) / 1000
  return { perSecond: count / seconds, cpuUs: ((cpuMs() - before) * 1000) / count }
}

const object = { object: 'checkout.session', id: 'cs_test_unknown', padding: 'x'.repeat(2_000) }
const eventOf = (id: string): string =>
  JSON.stringify({ id, object: 'event', type: 'checkout.session.completed', data: { object } })

/** What no service can pass that keeps each callback before it answers: one commit each, over one table. */
const inserts = (url: string, count: number): Promise<number> =>
  withDatabase(url, (own) =>
    withLogOf(own, async ({ pool }) => {
      await pool.query('create table public.callback (id text primary key, body text not null)')
      const text = 'insert into public.callback (id, body) values ($1::text, $2::text)'
      const { perSecond } = await measure(count, async (n) => {
        await pool.query({ name: 'insert', text, values: [`evt_${n}`, eventOf(`evt_${n}`)] })
      })
      return perSecond
    }),
  )

const post = async (url: string, body: string, headers: Record<string, string>): Promise<string> => {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body,
  })
  const text = await response.text()
  if (response.status !== 200) throw new Error(`${response.status} ${text}`)
  return text
}

const measureCallbacks = async ({ url, print, sizes }: BenchContext, farebox: Farebox): Promise<void> => {
  const { baseUrl, demo, core } = farebox
  if (baseUrl === null || demo === null) throw new Error('no address or no demo')
  const { buyer, sandbox } = demo.demo
  const secret = `whsec_${createHmac('sha256', deriveKey(core.keys.master, 'sandbox gateways v1'))
    .update(JSON.stringify(['sandbox-stripe', 'webhook']))
    .digest('hex')}`
  const stripe = new Stripe('sk_test_unused')
  const signed = (payload: string) => ({
    'stripe-signature': stripe.webhooks.generateTestHeaderString({ payload, secret }),
  })
  const callback = async (payload: string): Promise<void> => {
    await post(`${baseUrl}/callbacks/sandbox-stripe`, payload, signed(payload))
  }

  const limit = await inserts(url, sizes.callbacks)
  print(`one committed insert each, ${clients} at once on 10 connections: ${figure(limit)}/s`)
  const absorbed = [
    ['each another event', (n: number) => callback(eventOf(`evt_${n}`))],
    ['one event again and again', () => callback(eventOf('evt_same'))],
  ] as const
  for (const [what, one] of absorbed) {
    const { perSecond, cpuUs } = await measure(sizes.callbacks, one)
    print(
      `callbacks absorbed, ${what}: ${figure(perSecond)}/s, ${figure(perSecond / limit, 2)} of those inserts; ${figure(cpuUs)} µs of CPU each (clients included)`,
    )
  }
  const paid = async (): Promise<number> =>
    (
      await core.pool.query<{ n: number }>(
        "select count(*)::integer as n from read.deposits where status = 'paid'",
      )
    ).rows[0]?.n ?? 0
  const credited = await measure(
    sizes.deposits,
    async () => {
      const body = '{"amount_cents":1000}'
      const made = await post(`${baseUrl}/api/v1/deposits`, body, { 'x-api-key': buyer.key })
      await post(`${sandbox}/_sandbox/invoices/${JSON.parse(made).deposit_id}/pay`, '{}', {})
    },
    async () => {
      while ((await paid()) < sizes.deposits) await new Promise((resolve) => setTimeout(resolve, 20))
    },
  )
  print(
    `deposits opened, paid, called back and credited: ${figure(credited.perSecond)}/s, ${figure(credited.perSecond / limit, 2)} of those inserts; ${figure(credited.cpuUs)} µs of CPU each (clients and stand-in included)`,
  )
}

/**
 * Callbacks a second that the service absorbs: signature checked over the raw bytes, stored durably, answered; and
 * deposits a second that are paid, called back, looked up at the provider's stand-in (in this process too) and credited.
 */
export const callbacks: Bench = {
  name: 'callbacks',
  what: 'callbacks absorbed and deposits credited a second, compared with one committed insert each',
  run: async (context) => {
    const dataDir = await mkdtemp(join(tmpdir(), 'farebox-bench-callbacks-'))
    try {
      await withDatabase(context.url, async (database) => {
        const farebox = await openFarebox({
          config: readConfig(serverSettings(database, dataDir)),
          roles,
          systemClock: Date.now,
          monotonicMs: () => performance.now(),
          logger: createLogger('fatal'),
          kill: () => process.exit(1),
        })
        try {
          await measureCallbacks(context, farebox)
        } finally {
          await farebox.close()
        }
      })
    } finally {
      await rm(dataDir, { recursive: true, force: true })
    }
  },
}
