import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import type pg from 'pg'
import type { VerifyResult } from '../../../src/audit/checks/checks.ts'
import { type Finding, findingText } from '../../../src/audit/checks/finding.ts'
import { type SealKey, sealStatement } from '../../../src/audit/seals/seals-file.ts'
import { createBatchSigner, createSigningStop } from '../../../src/audit/signatures/signer.ts'
import { introductionStatement } from '../../../src/audit/signatures/signing-keys.ts'
import { verifyLog } from '../../../src/audit/verify.ts'
import type { LogSealed } from '../../../src/domain/seals/events.ts'
import { isoTime } from '../../../src/kernel/clock.ts'
import { newEventId, newId } from '../../../src/kernel/ids.ts'
import { exitsStream, noticeStream, type StreamName, sealStream } from '../../../src/kernel/streams.ts'
import type { AppendItem, EventLog, NewEvent, StoredEvent } from '../../../src/platform/eventstore/port.ts'
import type { BatchSigner } from '../../../src/platform/eventstore/postgres/append-batch.ts'
import { openLog } from '../../platform/eventstore/open-postgres.ts'
import { testDatabase } from '../../support/postgres.ts'
import { allEvents, startMs, tamper, testKey } from '../world.ts'

type World = {
  readonly url: string
  readonly pool: pg.Pool
  /** A separate process on the log. */
  process(options?: { signer?: BatchSigner; sealKey?: SealKey; clock?: () => number }): Promise<EventLog>
}

const signedWorld = async (t: TestContext): Promise<World> => {
  const { url, pool } = await testDatabase(t)
  return {
    url,
    pool,
    process: async ({ sealKey = testKey(), clock = () => startMs, ...given } = {}) => {
      const signer = given.signer ?? createBatchSigner({ pool, sealKey, clock, role: 'test' })
      const log = await openLog(url, { signer })
      t.after(() => log.close())
      return log
    },
  }
}

const stream = (name: string): StreamName => noticeStream(`ntc_${name}` as never)

const happening = (at = startMs): NewEvent => ({
  id: newEventId(),
  type: 'NoticeWithdrawn',
  data: JSON.stringify({ accountId: 'acc_7c25bd4d5b1f4a2a8d3e9c6b5a4f3e2d' }),
  metadata: JSON.stringify({
    correlationId: 'run_test',
    causationId: null,
    actor: { kind: 'system', name: 'test' },
    recordedAt: isoTime(at),
  }),
})

/** One event a batch, of streams of their own. */
const write = async (log: EventLog, count: number, from = 0): Promise<void> => {
  for (let n = from; n < from + count; n += 1) await log.append(stream(`a${n}`), 'noStream', [happening()])
}

/** A batch of several events. */
const writeTogether = (log: EventLog, names: readonly string[]) =>
  log.appendAll(
    names.map(
      (name): AppendItem => ({
        appends: [{ stream: stream(name), expected: 'noStream', events: [happening(), happening()] }],
      }),
    ),
  )

const verified = async ({ pool, url }: Pick<World, 'pool' | 'url'>): Promise<VerifyResult> => {
  const log = await openLog(url)
  try {
    return await verifyLog(
      { pool, log, groups: [], logInPostgres: true },
      { runId: newId('vrf'), publicKey: testKey().publicKey, exported: null },
    )
  } finally {
    await log.close()
  }
}

const ofSignatures = ({ findings }: VerifyResult): readonly Finding[] =>
  findings.filter(({ check }) => check === 'signatures')

/** The signature findings of a verification, each with its ordinals. */
const said = async (world: World): Promise<readonly (readonly [ordinals: string, problem: string])[]> =>
  ofSignatures(await verified(world)).map((finding) => {
    if (finding.where === 'event') return [`${finding.event.ordinal}`, finding.problem] as const
    if (finding.where === 'events')
      return [`${finding.fromOrdinal} to ${finding.throughOrdinal}`, finding.problem] as const
    return ['log', findingText(finding)] as const
  })

const assertClean = async (world: World): Promise<VerifyResult> => {
  const result = await verified(world)
  assert.deepEqual(ofSignatures(result).map(findingText), [])
  return result
}

/** A row at the end of the log that no process of the service wrote. */
const insert = (
  world: Pick<World, 'pool'>,
  { id, type, data, metadata }: NewEvent,
  to: StreamName,
  revision = 0,
) =>
  tamper(
    world.pool,
    [
      `insert into log.events (position, stream, revision, id, type, data, metadata)
       select last_position + 1, $1, $2, $3, $4, $5, $6 from log.head`,
      [to, revision, id, type, data, metadata],
    ],
    ['update log.head set last_position = last_position + 1'],
  )

describe('signatures of processes', () => {
  test('do not differ for an event that was decided while the clock was ahead', async (t) => {
    const world = await signedWorld(t)
    const log = await world.process()
    await log.append(stream('early'), 'noStream', [happening(startMs + 48 * 3_600_000)])
    await write(log, 1)
    assert.deepEqual(await said(world), [])
  })

  test('use a new key if the key was created while the clock was ahead and no batch introduced it', async (t) => {
    const { pool } = await signedWorld(t)
    let nowMs = startMs + 86_400_000
    const clock = () => nowMs
    const signers = [createBatchSigner, createSigningStop].map((create) =>
      create({ pool, sealKey: testKey(), clock, role: 'test' }),
    )
    const times = async () => {
      const items = await Promise.all(signers.map((signer) => signer.preamble()))
      return items.map((item) => item && JSON.parse(item.appends[0]!.events[0]!.metadata).recordedAt)
    }
    assert.deepEqual(await times(), [isoTime(nowMs), null])
    nowMs = startMs
    assert.deepEqual(await times(), [isoTime(startMs), null])
    nowMs = startMs - 1
    assert.deepEqual(await times(), [isoTime(startMs), null], 'a clock may go back a little')
  })

  test('are complete in a log of two processes that race, conflict, resend and hand over', async (t) => {
    const world = await signedWorld(t)
    let nowMs = startMs
    const [one, other] = [await world.process({ clock: () => nowMs }), await world.process()]
    const contended = exitsStream
    let revision = -1
    for (let round = 0; round < 20; round += 1) {
      const items = (own: string): AppendItem[] => [
        { appends: [{ stream: stream(`${own}${round}`), expected: 'noStream', events: [happening(nowMs)] }] },
        {
          appends: [
            {
              stream: contended,
              expected: revision === -1 ? 'noStream' : revision,
              events: [happening(nowMs)],
            },
          ],
        },
      ]
      const batches = [items('one'), items('other')] as const
      const [first, second] = await Promise.all([one.appendAll(batches[0]), other.appendAll(batches[1])])
      const landed = [first[1], second[1]].filter((outcome) => outcome?.status === 'landed')
      assert.equal(landed.length, 1, 'one of the two wins')
      revision += 1
      const resent = await one.appendAll(batches[0])
      assert.deepEqual(resent[0]?.status, 'landed', 'what stands already is not written again')
      if (round === 10) nowMs += 23 * 3_600_000
    }
    const { signatures, events } = await assertClean(world)
    assert.equal(signatures?.signed, events)
    assert.equal(signatures?.keys, 3, 'one of the processes took another key')
  })

  test('end with a key whose append has no known outcome, and its possible signatures blame no one', async (t) => {
    const world = await signedWorld(t)
    const signer = createBatchSigner({
      pool: world.pool,
      sealKey: testKey(),
      clock: () => startMs,
      role: 'test',
    })
    const log = await world.process({ signer })
    await write(log, 3)
    signer.onOutcomeUnknown()
    await write(log, 3, 3)
    const { signatures } = await assertClean(world)
    assert.deepEqual([signatures?.keys, signatures?.signed], [2, 8])
  })

  test('do not cover an older log, and only the seal key can switch signing off', async (t) => {
    const world = await signedWorld(t)
    const before = await openLog(world.url)
    await write(before, 4)
    await before.close()
    await write(await world.process(), 2, 4)
    const off = (sealKey: SealKey) =>
      createSigningStop({ pool: world.pool, sealKey, clock: () => startMs, role: 'test' })
    await write(await world.process({ signer: off(testKey()) }), 3, 6)
    const { signatures } = await assertClean(world)
    assert.deepEqual([signatures?.unsigned, signatures?.signed], [4 + 3, 3])

    await write(await world.process(), 1, 9)
    await write(await world.process({ signer: off(testKey(9)) }), 1, 10)
    const [[stop, why], ...more] = (await said(world)) as [readonly [string, string], ...string[][]]
    assert.equal(stop, '14')
    assert.match(why, /the key that seals the log did not sign it/)
    assert.deepEqual(
      more.map(([ordinals]) => ordinals),
      ['15'],
    )
  })
})

describe('an attacker with write access to the database', () => {
  /** A key's introduction and an event, ten batches of one event, and one of six events: ordinals 1, 2 to 11, 12 to 17. */
  const standing = async (t: TestContext): Promise<World & { readonly events: readonly StoredEvent[] }> => {
    const world = await signedWorld(t)
    const log = await world.process()
    await write(log, 10)
    await writeTogether(log, ['x', 'y', 'z'])
    await assertClean(world)
    return { ...world, events: await allEvents(log) }
  }

  test('cannot add an event, however valid it is', async (t) => {
    const world = await standing(t)
    await insert(world, happening(), stream('added'))
    assert.deepEqual(await said(world), [['18', 'no process signed it: it was added past the service']])
  })

  test('cannot change any column of an event', async (t) => {
    const world = await standing(t)
    for (const change of [
      `data = data || ' '`,
      `metadata = metadata || ' '`,
      `type = 'NoticePublished'`,
      'id = gen_random_uuid()',
      `stream = stream || 'x'`,
      'revision = 7',
    ]) {
      await tamper(world.pool, ['create table public.saved as select * from log.events'])
      await tamper(world.pool, [`update log.events set ${change} where position = 5`])
      const [[ordinals, problem], ...more] = (await said(world)) as [readonly [string, string], ...string[][]]
      assert.equal(ordinals, '5', change)
      assert.match(problem, /^these are not the events that the process key [0-9a-f]{64} signed$/)
      assert.deepEqual(more, [])
      await tamper(
        world.pool,
        ['delete from log.events'],
        ['insert into log.events select * from public.saved'],
        ['drop table public.saved'],
      )
    }
  })

  test('cannot remove an event of a batch, a batch, or the last batch', async (t) => {
    const world = await standing(t)
    await tamper(world.pool, ['delete from log.events where position = 14'])
    assert.deepEqual(await said(world), [['12 to 16', '1 of the 6 events of this batch are missing']])
    await tamper(
      world.pool,
      ['delete from log.events where position >= 12'],
      ['update log.head set last_position = 11'],
    )
    assert.match(
      (await said(world))[0]?.[1] ?? '',
      /1 batches were signed behind the last event of the log: it was cut off/,
    )
  })

  test('cannot take the signatures away', async (t) => {
    const world = await standing(t)
    await tamper(world.pool, ['delete from log.signatures'])
    assert.deepEqual(await said(world), [['1 to 17', 'no process signed it: it was added past the service']])
  })

  test('cannot close the gap that a removed batch leaves', async (t) => {
    const world = await standing(t)
    await tamper(
      world.pool,
      ['delete from log.events where position = 6'],
      ['delete from log.signatures where first_position = 6'],
      ['update log.events set position = -position where position > 6'],
      ['update log.events set position = -position - 1 where position < 0'],
      ['update log.signatures set first_position = -first_position where first_position > 6'],
      ['update log.signatures set first_position = -first_position - 1 where first_position < 0'],
      ['update log.head set last_position = last_position - 1'],
    )
    const [[ordinals, problem]] = (await said(world)) as [readonly [string, string]]
    assert.equal(ordinals, '6')
    assert.match(problem, /^batches 5 to 5 of the process key [0-9a-f]{64} are missing before it$/)
  })

  test('cannot exchange two events, nor two batches with their signatures', async (t) => {
    const world = await standing(t)
    const exchange = (table: string, column: string): (readonly [string])[] => [
      [`update log.${table} set ${column} = -${column} where ${column} in (4, 8)`],
      [`update log.${table} set ${column} = 12 + ${column} where ${column} in (-4, -8)`],
    ]
    await tamper(world.pool, ...exchange('events', 'position'))
    assert.deepEqual(
      (await said(world)).map(([ordinals]) => ordinals),
      ['4', '8'],
    )
    await tamper(world.pool, ...exchange('signatures', 'first_position'))
    assert.notDeepEqual(await said(world), [])
  })

  test('cannot sign with a key of its own, an ended key, or the signature of another batch', async (t) => {
    const world = await standing(t)
    const forged = createBatchSigner({
      pool: world.pool,
      sealKey: testKey(66),
      clock: () => startMs,
      role: 'test',
    })
    await write(await world.process({ signer: forged }), 1, 20)
    const [[ordinals, problem]] = (await said(world)) as [readonly [string, string]]
    assert.equal(ordinals, '18 to 19')
    assert.match(problem, /introduced under the key .* but .* seals the log/)

    await insert(world, happening(), stream('copied'))
    await tamper(world.pool, [
      `insert into log.signatures select 20, 1, public_key, number, previous_position, signature
         from log.signatures where first_position = 7`,
    ])
    const [last] = (await said(world)).filter(([at]) => at === '20')
    assert.match(last?.[1] ?? '', /these are not the events that the process key/)
  })

  test('cannot use a process key beyond its end by changing the time of its events', async (t) => {
    const world = await signedWorld(t)
    const log = await world.process()
    await write(log, 1)
    await log.append(stream('late'), 'noStream', [happening(startMs + 25 * 3_600_000)])
    const [[ordinals, problem]] = (await said(world)) as [readonly [string, string]]
    assert.equal(ordinals, '3')
    assert.match(problem, /the process key [0-9a-f]{64} ended at/)
  })

  test('cannot introduce a key with an introduction that was signed for another key', async (t) => {
    const world = await standing(t)
    const [introduced] = world.events
    assert.ok(introduced)
    const data = JSON.parse(introduced.data)
    assert.equal(introduced.type, 'ProcessKeyIntroduced')
    const changed = { ...data, endsAt: isoTime(startMs + 1e12) }
    assert.notEqual(introductionStatement(changed), introductionStatement(data), 'the end is signed')
    await tamper(world.pool, [
      'update log.events set data = $1 where position = 1',
      [JSON.stringify(changed)],
    ])
    assert.match(
      (await said(world))[0]?.[1] ?? '',
      /the key that seals the log did not sign its introduction/,
    )
  })

  test('cannot switch signing off with an old declaration', async (t) => {
    const world = await standing(t)
    const stop = createSigningStop({
      pool: world.pool,
      sealKey: testKey(),
      clock: () => startMs,
      role: 'test',
    })
    await write(await world.process({ signer: stop }), 1, 30)
    await write(await world.process(), 1, 31)
    await assertClean(world)
    const stopped = (await allEvents(await world.process())).find(
      ({ type }) => type === 'BatchSigningStopped',
    )
    assert.ok(stopped)
    await insert(world, { ...stopped, id: newEventId() }, stopped.stream, 1)
    await insert(world, happening(), stream('after'))
    assert.deepEqual(
      (await said(world)).map(([, problem]) => problem),
      ['it says that it is another stop than it is', 'no process signed it: it was added past the service'],
    )
  })
})

test('a key is introduced under the seal key of that time', async (t) => {
  const world = await signedWorld(t)
  await write(await world.process({ sealKey: testKey(1) }), 1)
  const seal = async (key: SealKey): Promise<NewEvent> => {
    const unsigned: Omit<LogSealed['data'], 'signature'> = {
      throughOrdinal: 1,
      throughEventId: newEventId(),
      digest: '00'.repeat(32),
      sealedAt: isoTime(startMs),
      publicKey: key.publicKey,
    }
    const data = { ...unsigned, signature: key.sign(sealStatement(unsigned)) }
    return { ...happening(), type: 'LogSealed', data: JSON.stringify(data) }
  }
  const sealing = await world.process({ sealKey: testKey(1) })
  await sealing.append(sealStream, 'noStream', [await seal(testKey(1))])
  await assertClean(world)
  await write(await world.process({ sealKey: testKey(2) }), 1, 1)
  assert.match((await said(world))[0]?.[1] ?? '', /was introduced under the key/)
})
