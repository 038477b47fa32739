import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { StreamName } from '../../../src/kernel/streams.ts'
import { LogUnavailable, OutcomeUnknown } from '../../../src/platform/eventstore/errors.ts'
import { openClient } from '../../../src/platform/eventstore/eventstoredb/client.ts'
import {
  appendFailure,
  toEventData,
  toStored,
} from '../../../src/platform/eventstore/eventstoredb/conversions.ts'
import { eventStoreDbLog } from '../../../src/platform/eventstore/eventstoredb/log.ts'
import { createStreamSerializer } from '../../../src/platform/eventstore/eventstoredb/subscription.ts'
import fc, { anyChar } from '../../support/fast-check.ts'
import { ownPort } from '../../support/own-port.ts'
import { freshStream, someEvent, someEvents } from './contract/events.ts'

/** Nothing listens there. */
const deadUrl = async (): Promise<string> => `esdb://127.0.0.1:${await ownPort()}?tls=false`

test('without a server every operation reports that the log is unavailable, with the reason', async (t) => {
  const log = eventStoreDbLog({ url: await deadUrl() })
  t.after(() => log.close())
  const stream = freshStream()
  const operations = [
    () => log.append(stream, 'noStream', someEvents(1)),
    () => log.readStream(stream)[Symbol.asyncIterator]().next(),
    () => log.readStreams([{ stream, from: 0 }]),
    () => log.lastOf(stream),
    () => log.readAll(0, 10),
    () => log.head(),
    () => log.logId(),
  ]
  for (const operation of operations)
    await assert.rejects(operation, (error) => {
      assert(error instanceof LogUnavailable, String(error))
      assert.match(String((error.cause as Error).message), /ECONNREFUSED/)
      return true
    })
  const item = () => ({
    appends: [{ stream: freshStream(), expected: 'noStream' as const, events: someEvents(1) }],
  })
  const outcomes = await log.appendAll([item(), item()])
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ['unavailable', 'unavailable'],
  )
})

test('a subscription without a server waits for one, and ends by its signal', async (t) => {
  const log = eventStoreDbLog({ url: await deadUrl() })
  t.after(() => log.close())
  const abort = new AbortController()
  const timer = setTimeout(() => abort.abort(), 400)
  t.after(() => clearTimeout(timer))
  for await (const batch of log.subscribeAll({ after: 0, signal: abort.signal }))
    assert.fail(`${batch.length}`)
  assert(abort.signal.aborted)
})

test('every call carries the credentials of the address', () => {
  const { credentials } = openClient('esdb+discover://ops:p%40ss@db.example:2113?nodePreference=leader')
  assert.deepEqual(credentials, { username: 'ops', password: 'p@ss' })
})

test('a stream that readers of the log would skip is a bug and throws', async (t) => {
  const log = eventStoreDbLog({ url: await deadUrl() })
  t.after(() => log.close())
  const stream = 'elsewhere-1' as StreamName
  await assert.rejects(log.append(stream, 'noStream', someEvents(1)), /none of the prefixes/)
  await assert.rejects(
    log.appendAll([{ appends: [{ stream, expected: 'noStream', events: someEvents(1) }] }]),
    /none of the prefixes/,
  )
})

test('invariant: any text passes the wire unchanged, also one that begins with a byte order mark', () => {
  const texts = fc.oneof(
    fc.json(),
    fc.string({ unit: anyChar }).filter((text) => text.isWellFormed()),
    fc.constantFrom('\ufeff', '\ufeff{}', ' {"2":1,"1":12345678901234567890.10}\n', '1E5', ''),
  )
  fc.assert(
    fc.property(texts, texts, (data, metadata) => {
      const event = { ...someEvent(data), metadata }
      const sent = toEventData(event)
      assert(sent.data instanceof Uint8Array && sent.metadata instanceof Uint8Array)
      const stored = toStored({
        event: {
          ...sent,
          data: sent.data,
          metadata: sent.metadata,
          isJson: false,
          streamId: 'order-1',
          revision: 3n,
          created: new Date(0),
          position: { commit: 77n, prepare: 0n },
        },
      })
      assert.deepEqual(stored, { ...event, stream: 'order-1', revision: 3, position: 77 })
    }),
  )
})

test('an event of another program is not used as one of ours', () => {
  const foreign = { id: '1', type: 'T', streamId: 'order-1', revision: 0n, created: new Date(0) }
  const position = { commit: 1n, prepare: 1n }
  for (const event of [
    { ...foreign, isJson: true, data: {}, metadata: {}, position } as const,
    { ...foreign, isJson: false, data: new Uint8Array(2), metadata: undefined, position } as const,
  ])
    assert.throws(() => toStored({ event }), /was not written by Farebox/)
})

test('only an append that certainly was not processed is unavailable; any other failure has an unknown outcome', () => {
  const stream = freshStream()
  for (const message of [
    '14 UNAVAILABLE: No connection established. Last error: Error: connect ECONNREFUSED 127.0.0.1:1.',
    '14 UNAVAILABLE: Server Is Not Ready',
    'Failed to discover after 10 attempts.',
  ])
    assert(appendFailure(new Error(message), stream, 0) instanceof LogUnavailable, message)
  for (const thrown of [
    new Error('14 UNAVAILABLE: Connection dropped'),
    new Error('14 UNAVAILABLE: read ECONNRESET'),
    new Error('13 INTERNAL: Received RST_STREAM with code 2'),
    new Error('4 DEADLINE_EXCEEDED: Deadline exceeded'),
    'thrown text',
  ])
    assert(appendFailure(thrown, stream, 0) instanceof OutcomeUnknown, String(thrown))
})

test('calls on one stream run in arrival order, all others at once, and a failure delays none', async () => {
  const inOrder = createStreamSerializer()
  const [a, b, c] = [freshStream(), freshStream(), freshStream()]
  const log: string[] = []
  const first = Promise.withResolvers<void>()
  const run = (name: string, streams: StreamName[], until?: Promise<void>) =>
    inOrder(new Set(streams), async () => {
      log.push(name)
      await until
    })
  const failing = run('ab', [a, b], first.promise)
  const rest = [run('bc', [b, c]), run('a', [a]), run('c', [c])]
  await run('alone', [freshStream()])
  assert.deepEqual(log, ['ab', 'alone'])
  first.reject(new Error('broken'))
  await assert.rejects(failing, /broken/)
  await Promise.all(rest)
  assert.deepEqual(
    log.slice(2).filter((name) => name !== 'a'),
    ['bc', 'c'],
  )
  assert(log.includes('a'))
})
