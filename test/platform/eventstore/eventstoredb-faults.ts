import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { jsonEvent, NO_STREAM } from '@eventstore/db-client'
import type { StreamName } from '../../../src/kernel/streams.ts'
import { LogUnavailable, OutcomeUnknown } from '../../../src/platform/eventstore/errors.ts'
import { openClient } from '../../../src/platform/eventstore/eventstoredb/client.ts'
import {
  type EventStoreDbOptions,
  eventStoreDbLog,
} from '../../../src/platform/eventstore/eventstoredb/log.ts'
import type { AppendItem, EventLog, ItemOutcome, StoredEvent } from '../../../src/platform/eventstore/port.ts'
import { until } from '../../support/until.ts'
import { allAfter, freshStream, only, someEvent, someEvents, streamOf, written } from './contract/events.ts'
import { type FaultyHop, startHop } from './eventstoredb-hop.ts'
import { restartServer, serverUrl, skipWithoutRestart, skipWithoutServer } from './eventstoredb-server.ts'

const open = (t: TestContext, options: EventStoreDbOptions): EventLog => {
  const log = eventStoreDbLog(options)
  t.after(() => log.close())
  return log
}

/** A log that reaches the server by way of a hop, and one that goes straight to it. */
const openBoth = async (
  t: TestContext,
  options: Partial<EventStoreDbOptions> = {},
): Promise<{ hop: FaultyHop; log: EventLog; direct: EventLog }> => {
  const hop = await startHop(t, serverUrl!)
  return {
    hop,
    log: open(t, { url: hop.url, ...options }),
    direct: open(t, { url: serverUrl! }),
  }
}

/** Three streams in a fixed order, as an order writes ledger, stock and order. */
const someItem = (bytes = 20): AppendItem => ({
  appends: Array.from({ length: 3 }, () => ({
    stream: freshStream(),
    expected: 'noStream' as const,
    events: [someEvent(JSON.stringify('x'.repeat(bytes))), someEvent()],
  })),
})

const settled = (outcome: ItemOutcome): boolean =>
  outcome.status === 'landed' || outcome.status === 'conflict'

/** Sends the identical item until its outcome is known, as the command runner does. */
const insist = async (
  log: EventLog,
  item: AppendItem,
): Promise<{ outcome: ItemOutcome; tries: string[] }> => {
  const tries: string[] = []
  for (;;) {
    const [outcome] = await log.appendAll([item])
    tries.push(outcome!.status)
    if (settled(outcome!)) return { outcome: outcome!, tries }
    assert(tries.length < 2_000, 'the outcome never became known')
    await delay(20)
  }
}

const assertStandsOnce = async (log: EventLog, item: AppendItem): Promise<void> => {
  for (const { stream, events } of item.appends)
    assert.deepEqual((await streamOf(log, stream)).map(written), events)
}

/** The number of an item's appends in the log, which must be a prefix. */
const prefixOf = async (log: EventLog, item: AppendItem): Promise<number> => {
  const stands = await Promise.all(
    item.appends.map(async ({ stream }) => (await log.lastOf(stream)) !== null),
  )
  const prefix = stands.indexOf(false) === -1 ? stands.length : stands.indexOf(false)
  assert(!stands.slice(prefix).includes(true), 'a later append stands without an earlier one')
  return prefix
}

/** What happens when the way to the server, or the server itself, breaks. Runs alone on its server. */
export const runFaultTests = (): void => {
  test('an append whose answer is lost is unknown in time, and sent again it gives the first result', {
    skip: skipWithoutServer,
  }, async (t) => {
    const { hop, log, direct } = await openBoth(t, { appendTimeoutMs: 1_000 })
    await log.logId()
    const stream = freshStream()
    const events = someEvents(3)
    hop.holdAnswers()
    const startedMs = performance.now()
    await assert.rejects(log.append(stream, 'noStream', events), OutcomeUnknown)
    assert(performance.now() - startedMs < 3_000)
    hop.cut()
    hop.release()
    const first = await until(() => direct.lastOf(stream))
    await direct.append(stream, 2, someEvents(1))
    const again = await until(() => log.append(stream, 'noStream', events))
    assert.deepEqual(again, first)
    assert.equal((await streamOf(direct, stream)).length, 4)
  })

  test('an item whose answers are lost midway says which appends landed, and sent again it is completed', {
    skip: skipWithoutServer,
  }, async (t) => {
    const { hop, log, direct } = await openBoth(t, { appendTimeoutMs: 500 })
    await log.logId()
    // Where in the item the answers stop is a race, so it is run until they stopped between two of them.
    await until(
      async () => {
        // Large appends take long enough to be caught on their way.
        const item = someItem(900_000)
        const sending = log.appendAll([item])
        await until(() => direct.lastOf(item.appends[0]!.stream), { everyMs: 1 })
        hop.holdAnswers()
        const [outcome] = await sending
        hop.cut()
        hop.release()
        if (outcome!.status === 'landed') return false
        assert.equal(outcome!.status, 'unknown')
        assert(outcome!.landed.length <= (await prefixOf(direct, item)))
        for (const [index, appended] of outcome!.landed.entries())
          assert.deepEqual(appended, await direct.lastOf(item.appends[index]!.stream))
        assert.equal((await insist(log, item)).outcome.status, 'landed')
        await assertStandsOnce(direct, item)
        return outcome!.landed.length > 0
      },
      { timeoutMs: 60_000 },
    )
  })

  test('reads of a server that went silent end as unavailable in time, and work again when it speaks', {
    skip: skipWithoutServer,
  }, async (t) => {
    const { hop, log } = await openBoth(t, { readTimeoutMs: 500 })
    const stream = freshStream()
    const { position } = await log.append(stream, 'noStream', someEvents(2))
    hop.freeze()
    for (const read of [
      () => streamOf(log, stream),
      () => log.lastOf(stream),
      () => log.readAll(position, 10),
      () => log.head(),
    ])
      await assert.rejects(read, LogUnavailable)
    hop.release()
    assert.equal((await until(() => streamOf(log, stream))).length, 2)
  })

  test('a log that was opened while its server was away works when it comes, with the same id', {
    skip: skipWithoutServer,
  }, async (t) => {
    const { hop, log, direct } = await openBoth(t)
    await hop.refuse()
    await assert.rejects(log.logId(), LogUnavailable)
    const item = someItem()
    assert.equal((await log.appendAll([item]))[0]!.status, 'unavailable')
    assert.equal(await prefixOf(direct, item), 0)
    await hop.listen()
    assert.equal((await insist(log, item)).outcome.status, 'landed')
    assert.equal(await log.logId(), await direct.logId())
    await assertStandsOnce(direct, item)
  })

  test('connections that break under held-back writes end neither the process nor an outcome', {
    skip: skipWithoutServer,
  }, async (t) => {
    const { hop, log, direct } = await openBoth(t)
    await log.logId()
    const unhandled: unknown[] = []
    const note = (error: unknown) => unhandled.push(error)
    process.on('unhandledRejection', note)
    t.after(() => process.off('unhandledRejection', note))
    const items = Array.from({ length: 100 }, () => someItem(250_000))
    const sending = Promise.all(items.map((item) => insist(log, item)))
    for (let round = 0; round < 3; round++) {
      await delay(150)
      hop.freeze()
      await delay(150)
      hop.cut()
      hop.release()
    }
    const results = await sending
    await delay(50)
    assert.deepEqual(unhandled, [])
    assert(results.every(({ outcome }) => outcome.status === 'landed'))
    for (const item of items) await assertStandsOnce(direct, item)
    const unknown = results.filter(({ tries }) => tries.includes('unknown')).length
    t.diagnostic(`${items.length} items over 3 cuts: ${unknown} were unknown in between, all landed once`)
    assert(unknown > 0, 'no append was on its way when the connection broke')
  })

  test('streams of other programs are seen by no read, subscription or head, however many', {
    skip: skipWithoutServer,
  }, async (t) => {
    const log = open(t, { url: serverUrl! })
    const stream = freshStream()
    const { position } = await log.append(stream, 'noStream', someEvents(2))
    const { client } = openClient(serverUrl!)
    t.after(() => client.dispose())
    const foreign = Array.from({ length: 1_200 }, () => jsonEvent({ type: 'Foreign', data: {} }))
    await client.appendToStream(`elsewhere-${randomUUID()}`, foreign, { expectedRevision: NO_STREAM })
    // A log without earlier reads, so that it has to read past them.
    const fresh = open(t, { url: serverUrl! })
    assert.equal(await fresh.head(), position)
    assert.deepEqual(await fresh.readAll(position, 10), [])
    const { position: next } = await log.append(stream, 1, someEvents(1))
    assert.deepEqual(
      (await allAfter(fresh, position, 1)).map((event) => event.position),
      [next],
    )
    assert.equal(await fresh.head(), next)
  })

  test('any number is taken as a position, also one at which no event stands', {
    skip: skipWithoutServer,
  }, async (t) => {
    const log = open(t, { url: serverUrl! })
    const start = await log.head()
    for (let n = 0; n < 30; n++) await log.append(freshStream(), 'noStream', someEvents(1))
    const events = await allAfter(log, start)
    for (const index of [0, 12, 29])
      for (const after of [events[index]!.position - 1, events[index]!.position + 1]) {
        const wanted = events.filter((event) => event.position > after)
        assert.deepEqual(await allAfter(log, after, 7), wanted)
        const abort = new AbortController()
        const received: StoredEvent[] = []
        if (wanted.length === 0) continue
        for await (const batch of log.subscribeAll({ after, signal: abort.signal })) {
          received.push(...batch)
          if (received.length >= wanted.length) abort.abort()
        }
        assert.deepEqual(received, wanted)
      }
  })

  test('a subscription over a connection that breaks again and again loses and repeats nothing', {
    skip: skipWithoutServer,
  }, async (t) => {
    const { hop, log, direct } = await openBoth(t)
    const start = await direct.head()
    const received: StoredEvent[] = []
    const abort = new AbortController()
    const done = (async () => {
      for await (const batch of log.subscribeAll({ after: start, maxBatch: 20, signal: abort.signal }))
        received.push(...batch)
    })()
    const streams: StreamName[] = []
    for (let round = 0; round < 12; round++) {
      for (let n = 0; n < 10; n++) {
        streams.push(freshStream())
        await direct.append(streams.at(-1)!, 'noStream', someEvents(5))
      }
      await until(() => only(received, streams).length > round * 50)
      if (round % 3 === 2) {
        await hop.refuse()
        await delay(100)
        await hop.listen()
      } else hop.cut()
    }
    await until(() => only(received, streams).length >= 600, { timeoutMs: 30_000 })
    abort.abort()
    await done
    assert.deepEqual(only(received, streams), only(await allAfter(direct, start), streams))
  })

  test('a server that is killed at random moments under load keeps what it acknowledged, and items stand once', {
    skip: skipWithoutRestart,
  }, async (t) => {
    const log = open(t, { url: serverUrl! })
    const logId = await log.logId()
    const kills = process.env.FAREBOX_SOAK === '1' ? 20 : 4
    const counts = { landed: 0, unknown: 0, unavailable: 0, prefixes: [0, 0, 0, 0] }
    let writing = true
    const acknowledged: AppendItem[] = []
    const uncertain: AppendItem[] = []
    const writer = async (): Promise<void> => {
      while (writing) {
        const item = someItem()
        const [outcome] = await log.appendAll([item])
        if (outcome!.status === 'landed') acknowledged.push(item)
        else {
          assert(outcome!.status === 'unknown' || outcome!.status === 'unavailable', outcome!.status)
          counts[outcome!.status]++
          // While the server is away nearly all are of one kind: some of it will do.
          if (outcome!.status === 'unknown' || outcome!.landed.length > 0 || counts.unavailable <= 200)
            uncertain.push(item)
          await delay(100)
        }
      }
    }
    const writers = Array.from({ length: 32 }, writer)
    for (let kill = 0; kill < kills; kill++) {
      await delay(300 + Math.random() * 700)
      await restartServer()
    }
    await delay(500)
    writing = false
    await Promise.all(writers)
    counts.landed = acknowledged.length
    for (const item of uncertain) counts.prefixes[await prefixOf(log, item)]!++
    const completed = await Promise.all(uncertain.map((item) => insist(log, item)))
    assert(completed.every(({ outcome }) => outcome.status === 'landed'))
    for (const item of [...acknowledged, ...uncertain]) await assertStandsOnce(log, item)
    assert.equal(await log.logId(), logId)
    t.diagnostic(
      `${kills} kills: ${counts.landed} items acknowledged, ${counts.unknown} unknown, ${counts.unavailable} unavailable; ` +
        `of ${uncertain.length} of those ${counts.prefixes.join('/')} stood with 0/1/2/3 of 3 appends; all were completed, none stands twice`,
    )
  })
}
