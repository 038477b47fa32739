import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventStoreDbLog } from '../../src/eventstore/eventstoredb/log.ts'
import { waitForLog } from '../../src/eventstore/reachable.ts'
import { demoEnv } from '../support/demo-env.ts'
import { skipWithoutEventStore, startEventStore } from '../support/eventstore-server.ts'
import { dataDirectory, runToEnd } from '../support/farebox.ts'
import { testDatabase } from '../support/postgres.ts'
import { tcpProxy } from '../support/tcp-proxy.ts'

test('an EventStoreDB that does not answer is waited for, then stops the start with a message and no stack', async (t) => {
  const { url } = await testDatabase(t)
  const env = { ...demoEnv(url, await dataDirectory(t)), LOG_LEVEL: 'warn' }
  const { code, err } = await runToEnd(t, { ...env, EVENTSTORE_URL: 'esdb://127.0.0.1:1?tls=false' })
  assert.equal(code, 1)
  assert.match(err, /the log does not answer yet: waiting for it/)
  assert.match(
    err,
    /^Farebox does not start: the log gave no answer within 30 s \(.*ECONNREFUSED.*\)\. Is EventStoreDB running, and is EVENTSTORE_URL right\?$/m,
  )
  assert.doesNotMatch(err, /\n {4}at /)
})

test('an EventStoreDB that comes within the time is taken', { skip: skipWithoutEventStore }, async (t) => {
  const server = await startEventStore(t)
  const proxy = await tcpProxy(t, server.url)
  await proxy.refuse()
  const log = eventStoreDbLog({ url: proxy.url })
  t.after(() => log.close())
  const told: string[] = []
  const onWait = (reason: string): void => {
    told.push(reason)
    void proxy.accept()
  }
  await waitForLog(log, { withinMs: 60_000, onWait })
  assert.equal(told.length, 1)
})
