import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { atEnd } from '../../support/cleanup.ts'
import { until } from '../../support/until.ts'
import { startLoad } from './cluster-load.ts'

test('the load of a test ends with the test, even if the test does not stop it', async (t) => {
  let requests = 0
  const server = createServer((_, response) => {
    requests += 1
    response.writeHead(503, { 'Retry-After': '1', 'Content-Type': 'application/json' }).end('{}')
  }).listen(0, '127.0.0.1')
  atEnd(t, () => server.close())
  await once(server, 'listening')
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  let load: ReturnType<typeof startLoad> | null = null
  await t.test('a test that is aborted', async (inner) => {
    load = startLoad(inner, [{ baseUrl }], 'key')
    await until(() => requests > 20)
  })
  await load!.end()
  const atItsEnd = requests
  // Each buyer waits 50 ms between two requests.
  await sleep(200)
  assert.equal(requests, atItsEnd)
})
