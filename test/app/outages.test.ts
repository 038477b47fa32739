import assert from 'node:assert/strict'
import { test } from 'node:test'
import { asOperator } from '../support/demo-env.ts'
import { skipWithoutPostgresLog } from '../support/service-env.ts'
import { type TcpProxy, tcpProxy } from '../support/tcp-proxy.ts'
import { testApp } from '../support/test-app.ts'
import { until } from '../support/until.ts'

const databaseMetrics = [
  'farebox_projection_lag_positions',
  'farebox_projection_lag_seconds',
  'farebox_queue_items',
  'farebox_queue_oldest_due_seconds',
  'farebox_queue_overdue',
  'farebox_queue_stuck',
  'farebox_queue_failing',
  'farebox_workers_stalled',
  'farebox_webhook_fan_out_targets',
  'farebox_webhook_endpoints',
  'farebox_seal_problem',
  'farebox_invariants_lag_seconds',
  'farebox_signatures_lag_seconds',
  'farebox_law_problem',
  'farebox_open_violations',
]

test('a service whose Postgres fails', { skip: skipWithoutPostgresLog }, async (t) => {
  const opened = Promise.withResolvers<TcpProxy>()
  const through = async (url: string): Promise<string> => {
    opened.resolve(await tcpProxy(t, url))
    return (await opened.promise).url
  }
  const lines: { msg: string }[] = []
  const app = await testApp(t, {
    own: true,
    through,
    settings: { LOG_LEVEL: 'warn' },
    logTo: { write: (line) => void lines.push(JSON.parse(line)) },
  })
  const { baseUrl, buyer, demo } = app
  const { pool } = app.core
  const proxy = await opened.promise

  await t.test(
    'a log that accepts no append makes the service not ready, with one log line, until an append succeeds',
    async () => {
      const order = async (): Promise<number> =>
        (await buyer.post('/api/v1/orders', { product_id: 'residential-premium', quantity: 5 })).status
      const linesAbout = (what: RegExp): number => lines.filter(({ msg }) => what.test(msg)).length
      // Reads work, as on a disk that is full.
      await pool.query(`
        create function log.refuse() returns trigger language plpgsql as
          $$ begin raise exception using errcode = 'disk_full', message = 'no space left on device'; end $$;
        create trigger refuse before insert on log.events for each statement execute function log.refuse()`)
      for (let n = 0; n < 3; n += 1) assert.equal(await order(), 503)
      const response = await fetch(`${baseUrl}/readyz`, asOperator)
      const { checks } = (await response.json()) as { checks: { log: string } }
      assert.deepEqual([response.status, checks.log], [503, 'appends fail: no space left on device'])
      assert.equal(linesAbout(/^the log takes no appends/), 1)
      await pool.query('drop trigger refuse on log.events')
      await until(async () => (await fetch(`${baseUrl}/readyz`)).ok, { what: 'readiness with no order' })
      assert.equal(await order(), 201)
      assert.equal(linesAbout(/^the log takes appends again/), 1)
    },
  )

  for (const [what, fail] of [
    ['is away', () => proxy.refuse()],
    ['says nothing', () => proxy.mute()],
  ] as const)
    await t.test(
      `while Postgres ${what}, /metrics answers without the figures that need Postgres`,
      async () => {
        const scrape = async (): Promise<ReadonlySet<string>> => {
          const response = await fetch(`${baseUrl}/metrics`, {
            ...asOperator,
            signal: AbortSignal.timeout(9_000),
          })
          assert.equal(response.status, 200)
          const found = (await response.text()).split('\n').filter((line) => !line.startsWith('#'))
          return new Set(found.map((line) => /^\w*/.exec(line)![0]))
        }
        const whole = await scrape()
        for (const name of databaseMetrics) assert.ok(whole.has(name), name)
        await fail()
        // Figures measured in the last second are still shown.
        const without = await until(async () => {
          const names = await scrape()
          return databaseMetrics.some((name) => names.has(name)) ? null : names
        })
        assert.deepEqual(new Set([...without, ...databaseMetrics]), whole)
        await proxy.accept()
        await until(async () => (await scrape()).isSupersetOf(new Set(databaseMetrics)))
      },
    )

  await t.test(
    'requests are answered with 503 and Retry-After, never 500, while a newer version exchanges a read table',
    async () => {
      const get = () => fetch(`${baseUrl}/api/v1/orders`, { headers: { 'x-api-key': demo.buyer.key } })
      const all = () => Promise.all(Array.from({ length: 10 }, get))
      const untilServed = () => until(async () => (await all()).every(({ status }) => status === 200))
      await untilServed()
      for (const [exchange, back] of [
        [
          'alter column refunded_cents type text',
          'alter column refunded_cents type bigint using refunded_cents::bigint',
        ],
        ['rename column refunded_cents to refunded', 'rename column refunded to refunded_cents'],
        ['rename to former_orders', ''],
      ] as const) {
        await pool.query(`alter table read.orders ${exchange}`)
        const answers = await until(async () => {
          const some = await all()
          return some.some(({ status }) => status !== 200) ? some : null
        })
        for (const { status, headers } of answers)
          assert.ok(
            status === 200 || (status === 503 && Number(headers.get('retry-after')) > 0),
            `${exchange}: ${status}`,
          )
        if (back === '') return
        await pool.query(`alter table read.orders ${back}`)
        await untilServed()
      }
    },
  )
})
