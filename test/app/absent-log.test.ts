import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLogWait } from '../../src/platform/commands/wait-for-log.ts'
import { eventStoreDbLog } from '../../src/platform/eventstore/eventstoredb/log.ts'
import { demoEnv } from '../support/demo-env.ts'
import { skipWithoutEventStore, startEventStore } from '../support/eventstore-server.ts'
import { eventStoreStandIn } from '../support/eventstore-stand-in.ts'
import { dataDirectory, runToEnd } from '../support/farebox.ts'
import { operate } from '../support/operator.ts'
import { testDatabase } from '../support/postgres.ts'
import { tcpProxy } from '../support/tcp-proxy.ts'

const refused = (where: string, reason: string): RegExp =>
  new RegExp(
    `^Farebox does not start: the log at ${where} gave no answer within 30 s \\(.*${reason}.*\\)\\. Is EventStoreDB running, has its cluster a leader, and is EVENTSTORE_URL right\\?$`,
    'm',
  )

test('a start waits for an EventStoreDB that does not answer, then fails with a message and no stack', async (t) => {
  const { url } = await testDatabase(t)
  const env = { ...demoEnv(url, await dataDirectory(t)), LOG_LEVEL: 'warn' }
  const { code, err } = await runToEnd(t, { ...env, EVENTSTORE_URL: 'esdb://127.0.0.1:1?tls=false' })
  assert.equal(code, 1)
  assert.match(err, /the log does not answer yet: waiting for it/)
  assert.match(err, refused('esdb://127.0.0.1:1', 'ECONNREFUSED'))
  assert.doesNotMatch(err, /\n {4}at /)
})

test('a command that waited without success for an EventStoreDB prints its address and what to do', async (t) => {
  const { url } = await testDatabase(t)
  const env = { ...demoEnv(url, await dataDirectory(t)), EVENTSTORE_URL: 'esdb://127.0.0.1:1?tls=false' }
  // It makes the tables, and waits for the log in vain.
  const imported = await operate(['ledger', 'import', 'nothing.jsonl'], env)
  assert.equal(imported.code, 2, imported.err)
  const { code, out, err } = await operate(['accounts', 'show', 'acc_1', '--json'], env)
  const { error, code: refusal } = JSON.parse(out)
  assert.deepEqual([code, refusal], [1, 'log_unreachable'])
  assert.match(
    error,
    /^the log at esdb:\/\/127\.0\.0\.1:1 gave no answer within 10 s \(.*ECONNREFUSED.*\)\. Is EventStoreDB running, /,
  )
  assert.equal(err.trim(), `error: ${error}`)
})

test('a start waits for a log that gives its id and then answers no read, and prints no stack', async (t) => {
  const { url } = await testDatabase(t)
  const standIn = await eventStoreStandIn(t)
  const env = {
    ...demoEnv(url, await dataDirectory(t)),
    LOG_LEVEL: 'warn',
    EVENTSTORE_URL: standIn.url,
  }
  const [server, command] = await Promise.all([runToEnd(t, env), operate(['accounts', 'list'], env)])
  assert.equal(server.code, 1)
  assert.match(server.err, /"waitedMs":\d+.*the log does not answer yet: waiting for it/)
  assert.match(server.err, refused('esdb://127\\.0\\.0\\.1:\\d+,127\\.0\\.0\\.1:1', 'Server Is Not Ready'))
  assert.doesNotMatch(server.err, /\n {4}at /)
  assert.doesNotMatch(command.err, /\n {4}at /)
})

test('a start succeeds when the EventStoreDB answers in time', { skip: skipWithoutEventStore }, async (t) => {
  const server = await startEventStore(t)
  const proxy = await tcpProxy(t, server.url)
  await proxy.refuse()
  const reasons: string[] = []
  const onWait = (reason: string): void => {
    if (reasons.push(reason) === 1) void proxy.accept()
  }
  const patience = createLogWait({ withinMs: 60_000, where: proxy.url, onWait })
  const log = patience.log(eventStoreDbLog({ url: proxy.url }))
  t.after(() => log.close())
  assert.match(await log.logId(), /^[0-9a-f-]{36}$/)
  assert.ok(reasons.length >= 1)
})
