import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { promisify } from 'node:util'
import { createEventDigest, type DigestedEvent, startDigest } from '../../../src/audit/seals/digests.ts'
import { SealRefused } from '../../../src/audit/seals/sealing.ts'
import { parsePublicKey, publicKeyPem } from '../../../src/audit/seals/seals-file.ts'
import type { StreamName } from '../../../src/kernel/streams.ts'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'
import { exportTo } from '../../features/exports/books.ts'
import fc from '../../support/fast-check.ts'
import { createMemoryLog } from '../../support/memory-log.ts'
import { testDatabase } from '../../support/postgres.ts'
import { allEvents, appendEach, auditWorld, everyKind, sealable, sealedHistory, testKey } from '../world.ts'

const run = promisify(execFile)

const uuid = fc.uuid({ version: 7 })
const text = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 })
const digested: fc.Arbitrary<DigestedEvent> = fc.record({
  stream: text.map((name) => name as StreamName),
  revision: fc.nat(),
  id: uuid,
  type: text,
  data: text,
  metadata: text,
})

describe('the digest of an event', () => {
  const digestOf = createEventDigest()
  const chained = (events: readonly DigestedEvent[]): string =>
    events.reduce((digest, event, at) => digestOf(digest, at + 1, event), startDigest()).toString('hex')

  test('changes with every stored field, also if text moves between fields', () => {
    fc.assert(
      fc.property(digested, digested, (one, other) => {
        const same = JSON.stringify(one) === JSON.stringify(other)
        assert.equal(chained([one]) === chained([other]), same)
        for (const name of ['stream', 'revision', 'id', 'type', 'data', 'metadata'] as const)
          if (one[name] !== other[name])
            assert.notEqual(chained([one]), chained([{ ...one, [name]: other[name] }]), name)
        const moved = { ...one, type: one.type + one.data.slice(0, 1), data: one.data.slice(1) }
        assert.notEqual(chained([one]), chained([moved]))
      }),
    )
  })

  test('changes when events are left out, added or exchanged', () => {
    fc.assert(
      fc.property(fc.array(digested, { minLength: 2, maxLength: 5 }), fc.nat(4), (events, at) => {
        const whole = chained(events)
        const place = at % (events.length - 1)
        assert.notEqual(whole, chained(events.toSpliced(place, 1)))
        assert.notEqual(whole, chained(events.toSpliced(place, 0, events[place]!)))
        const [first, second] = events.slice(place, place + 2)
        if (JSON.stringify(first) !== JSON.stringify(second))
          assert.notEqual(whole, chained(events.toSpliced(place, 2, second!, first!)))
      }),
    )
  })

  test('has fixed bytes for all releases', () => {
    const event = {
      stream: 'ledger-acc_1' as StreamName,
      revision: 2 ** 40,
      id: '0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b',
      type: 'WalletCredited',
      data: '{"reference":"Straße 東京 🎉"}',
      metadata: '{}',
    }
    assert.equal(
      startDigest().toString('hex'),
      'a5c83b6bf506cdfdf9dd81c79ed8406c112cee4c39cdce793bbbbbd9e7b3456f',
    )
    assert.equal(chained([event]), '999d182a507d53976fba99d4472b8554d4a76491241e166b12e9efa799b337c8')
    assert.equal(chained([event, event]), '0ec3b4ca74fd3aa86eec9b141bee88e5370531bbeaf5b32ba6c89088eda8ed2a')
  })

  test('accepts an event of one mebibyte', () => {
    const event = {
      stream: 's' as StreamName,
      revision: 0,
      id: '0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b',
      type: 't',
    }
    const long = { ...event, data: 'ü'.repeat(500_000), metadata: '{}' }
    assert.notEqual(chained([long]), chained([{ ...long, data: `${long.data.slice(1)}u` }]))
  })
})

test('a public key is read from PEM and from hex, and other texts are refused', () => {
  const { publicKey } = testKey()
  assert.equal(parsePublicKey(publicKeyPem(publicKey)), publicKey)
  assert.equal(parsePublicKey(`${publicKey.toUpperCase()}\n`), publicKey)
  for (const wrong of [
    '',
    'abc',
    publicKey.slice(2),
    '-----BEGIN PUBLIC KEY-----\nMCow\n-----END PUBLIC KEY-----',
  ])
    assert.equal(parsePublicKey(wrong), null)
})

describe('sealing', () => {
  test('covers every event so far, and does nothing when only seals are new', async (t) => {
    const { log, seal } = await auditWorld(t)
    assert.equal(await seal(), null)
    const events = await everyKind()
    await appendEach(log, events.slice(0, 40))
    assert.equal(await seal(), 40)
    assert.equal(await seal(), null)
    assert.equal(await log.head(), 41)
    await appendEach(log, events.slice(40))
    // The seal before it is one of the events.
    assert.equal(await seal(), events.length + 1)
    assert.equal(await seal(), null)
  })

  test('gives the same history the same digests on another log with other positions', async (t) => {
    const { log, seal, store } = await auditWorld(t)
    await appendEach(log, (await everyKind()).slice(0, 30))
    await seal()
    const digests = []
    for await (const row of store.rows()) digests.push(row.digests)
    const { pool } = await testDatabase(t)
    const memory = createMemoryLog()
    // Positions with gaps, as on EventStoreDB.
    const spread: EventLog = {
      ...memory,
      head: async () => 1000 * (await memory.head()),
      readAll: async (after, limit) =>
        (await memory.readAll(Math.floor(after / 1000), limit)).map((event) => ({
          ...event,
          position: 1000 * event.position,
        })),
    }
    const other = await sealable(t, pool, spread)
    await appendEach(spread, (await everyKind()).slice(0, 30))
    assert.equal(await other.seal(), 30)
    const others = []
    for await (const row of other.store.rows()) others.push(row.digests)
    assert.deepEqual(others, digests)
    const sealOf = async (sealed: EventLog) => (await allEvents(sealed)).at(-1)!.data
    assert.equal(await sealOf(spread), await sealOf(log))
  })

  test('rebuilds lost digests from the log, equal to those that were sealed', async (t) => {
    const { log, seal, store } = await auditWorld(t)
    const events = await everyKind()
    await appendEach(log, events.slice(0, 50))
    await seal()
    const before = await store.at(37)
    await store.clear()
    await appendEach(log, events.slice(50))
    assert.equal(await seal(), events.length + 1)
    assert.deepEqual(await store.at(37), before)
  })

  test('is refused for a log that differs from what was sealed', async (t) => {
    const { log, seal, store, pool } = await auditWorld(t)
    const events = await everyKind()
    await appendEach(log, events.slice(0, 50))
    await seal()
    await pool.query('alter table log.events disable trigger append_only')
    await pool.query(`update log.events set type = 'WalletCredited' where position = 7`)
    await store.clear()
    await appendEach(log, events.slice(50))
    await assert.rejects(seal(), SealRefused)
    assert.equal((await allEvents(log)).filter(({ stream }) => stream === 'seal').length, 1)
  })

  test('is refused for a key that has been replaced', async (t) => {
    const { log, seal } = await auditWorld(t)
    const events = await everyKind()
    await appendEach(log, events.slice(0, 10))
    await seal()
    await appendEach(log, events.slice(10, 20))
    await assert.rejects(seal(testKey(2)), /start it with the new FAREBOX_SEAL_KEY/)
  })

  test('by two processes at once creates one seal after the other', async (t) => {
    const { log, seal } = await auditWorld(t)
    await appendEach(log, (await everyKind()).slice(0, 30))
    const sealed = await Promise.all([seal(), seal(), seal()])
    assert.deepEqual(
      sealed.filter((through) => through !== null),
      [30],
    )
    assert.equal(await log.head(), 31)
  })
})

describe('a checker in another language without shared code', () => {
  const missing = (['python3', 'openssl'] as const).filter((tool) => spawnSync(tool, ['--version']).error)
  const skip =
    missing.length > 0 &&
    `${missing.join(' and ')} is not installed here: the independent check of seals did not run`

  const check = async (t: TestContext, log: EventLog, key = testKey().publicKey) => {
    const directory = await mkdtemp(join(tmpdir(), 'farebox-seals-'))
    t.after(() => rm(directory, { recursive: true }))
    const path = join(directory, 'log.jsonl')
    await exportTo(log, path, 'jsonl')
    const script = join(import.meta.dirname, 'check_seals.py')
    const { stdout, stderr } = await run('python3', [script, path, key]).catch((error) => error)
    assert.equal(stderr, '')
    return JSON.parse(stdout)
  }

  test('follows key rotations, and does not accept a later key as the first', { skip }, async (t) => {
    const world = await auditWorld(t)
    await sealedHistory(world)
    const { ok, seals } = await check(t, world.log)
    assert.ok(ok && seals >= 2)
    assert.match((await check(t, world.log, testKey(2).publicKey)).why, /another key/)
  })

  test('accepts the seals, and finds a changed byte, a truncated log and another key', {
    skip,
  }, async (t) => {
    const { log, pool, seal } = await auditWorld(t)
    const events = await everyKind()
    await appendEach(log, events.slice(0, 60))
    await seal()
    await appendEach(log, events.slice(60))
    await seal()
    const fine = await check(t, log)
    assert.deepEqual(
      { ...fine, digest: '' },
      { ok: true, events: events.length + 2, seals: 2, sealed: events.length + 1, digest: '' },
    )
    assert.match((await check(t, log, testKey(2).publicKey)).why, /another key/)
    await pool.query('alter table log.events disable trigger append_only')
    await pool.query(`update log.events set data = replace(data, '"', ' "') where position = 62`)
    assert.deepEqual(await check(t, log), {
      ok: false,
      ordinal: events.length + 2,
      why: 'the digest differs',
    })
  })
})
