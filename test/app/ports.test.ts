import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { test } from 'node:test'
import { Registry } from 'prom-client'
import { readConfig } from '../../src/app/config.ts'
import { serveWorkerMetrics } from '../../src/app/listen.ts'
import { portCollision } from '../../src/app/ports.ts'
import { closeAfter } from '../../src/kernel/resource-scope.ts'

const all = { server: true, gateway: true, freelist: true }
const problemOf = (env: Record<string, string>, runs = all) => portCollision(readConfig(env), runs)

test('two listeners on one port are reported by their settings', () => {
  const tls = { FAREBOX_GATEWAY_TLS_CERT: 'c', FAREBOX_GATEWAY_TLS_KEY: 'k' }
  for (const [env, one, other] of [
    [{ PORT: '8999' }, 'the sandbox', 'FAREBOX_GATEWAY_PORT'],
    [{ PORT: '3100', FAREBOX_GATEWAY_PORT: '3101' }, 'the sandbox', 'FAREBOX_GATEWAY_PORT'],
    [{ FAREBOX_SANDBOX_PORT: '9000' }, 'FAREBOX_SANDBOX_PORT', 'FAREBOX_GATEWAY_PORT'],
    [{ PORT: '9000' }, 'PORT', 'FAREBOX_GATEWAY_PORT'],
    [{ PORT: '3000', HOST: '0.0.0.0', FAREBOX_METRICS_PORT: '3000' }, 'PORT', 'FAREBOX_METRICS_PORT'],
    [{ ...tls, FAREBOX_GATEWAY_TLS_PORT: '9000' }, 'FAREBOX_GATEWAY_PORT', 'FAREBOX_GATEWAY_TLS_PORT'],
    [
      { FAREBOX_GATEWAY_METRICS_PORT: '8999', FAREBOX_GATEWAY_WORKERS: '2' },
      'FAREBOX_GATEWAY_PORT',
      'METRICS_PORT',
    ],
    [{ FAREBOX_FREELIST_METRICS_PORT: '3000' }, 'PORT', 'FAREBOX_FREELIST_METRICS_PORT'],
    [{ FAREBOX_GATEWAY_LISTEN: '0.0.0.0', PORT: '9000' }, 'PORT', 'FAREBOX_GATEWAY_PORT'],
  ] as const) {
    const problem = problemOf(env as unknown as Record<string, string>) ?? 'nothing'
    assert.ok(problem.includes(one) && problem.includes(other), `${JSON.stringify(env)}: ${problem}`)
  }
})

test('different ports, free ports, and ports of parts that this process does not run are accepted', () => {
  for (const env of [
    {},
    { PORT: '0', FAREBOX_GATEWAY_PORT: '0' },
    { PORT: '3000', FAREBOX_SANDBOX: 'off', FAREBOX_GATEWAY_PORT: '3001' },
    { PORT: '443', HOST: '203.0.113.1', FAREBOX_GATEWAY_PORT: '443', FAREBOX_GATEWAY_LISTEN: '203.0.113.2' },
  ])
    assert.equal(problemOf(env as Record<string, string>), null, JSON.stringify(env))
  assert.equal(problemOf({ PORT: '8999' }, { ...all, gateway: false }), null)
  assert.equal(problemOf({ PORT: '8999' }, { ...all, server: false }), null)
})

test('a worker whose port of metrics is taken refuses to start and names the setting', async (t) => {
  const holder = createServer().listen(0, '127.0.0.1')
  t.after(() => holder.close())
  await once(holder, 'listening')
  const { port } = holder.address() as AddressInfo
  await closeAfter((closing) =>
    assert.rejects(serveWorkerMetrics(closing, new Registry(), port, 'FAREBOX_FREELIST_METRICS_PORT'), {
      name: 'StartRefused',
      message: `port ${port} of 127.0.0.1 is taken by another program; set FAREBOX_FREELIST_METRICS_PORT to another one`,
    }),
  )
})
