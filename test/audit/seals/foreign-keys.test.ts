import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { findingText } from '../../../src/audit/checks/finding.ts'
import { chainToHead, openChain } from '../../../src/audit/seals/sealing.ts'
import {
  rotationStatement,
  type SealKey,
  type SealsFile,
  SealsFileRefused,
  sealStatement,
  trustedSeals,
} from '../../../src/audit/seals/seals-file.ts'
import { verifyLog } from '../../../src/audit/verify.ts'
import type { LogSealed, SealEvent, SealKeyRotated } from '../../../src/domain/seals/events.ts'
import { newEventId, newId } from '../../../src/kernel/ids.ts'
import { sealStream } from '../../../src/kernel/streams.ts'
import { allEvents, appendEach, auditWorld, everyKind, tamper, testKey } from '../world.ts'

const [genuine, foreign] = [testKey(1), testKey(2)]
const at = '2026-10-27T00:00:00.000Z'

type Unsigned = Pick<LogSealed['data'], 'throughOrdinal' | 'throughEventId' | 'digest'>

const sealBy = (key: SealKey, covers: Unsigned): LogSealed => {
  const { throughOrdinal, throughEventId, digest } = covers
  const unsigned = { throughOrdinal, throughEventId, digest, sealedAt: at, publicKey: key.publicKey }
  return { type: 'LogSealed', data: { ...unsigned, signature: key.sign(sealStatement(unsigned)) } }
}

/** An event that hands one key over to another, signed by the stated key or by another one. */
const handOver = (from: SealKey, to: SealKey, sealed: LogSealed['data'], signer: SealKey): SealKeyRotated => {
  const unsigned = {
    sealedOrdinal: sealed.throughOrdinal,
    sealedDigest: sealed.digest,
    previousPublicKey: from.publicKey,
    publicKey: to.publicKey,
    rotatedAt: at,
  }
  return {
    type: 'SealKeyRotated',
    data: { ...unsigned, signature: signer.sign(rotationStatement(unsigned)) },
  }
}

/** The events after a genuine seal, given the seal and the end that a last seal is to cover. */
type Forgery = (sealed: LogSealed['data'], covers: Unsigned) => readonly [SealEvent, ...SealEvent[]]

const byTheGenuineKey: Forgery = (_, covers) => [sealBy(genuine, covers)]
const handedOver: Forgery = (sealed, covers) => [
  handOver(genuine, foreign, sealed, genuine),
  sealBy(foreign, covers),
]

const forgeries: readonly (readonly [what: string, forge: Forgery, found: readonly RegExp[]])[] = [
  [
    'a seal by a foreign key',
    (_, covers) => [sealBy(foreign, covers)],
    [new RegExp(`it is by the key ${foreign.publicKey}, but ${genuine.publicKey} signs`)],
  ],
  [
    'a hand-over to a foreign key that the foreign key signed itself, and a seal by that',
    (sealed, covers) => [handOver(genuine, foreign, sealed, foreign), sealBy(foreign, covers)],
    [/the key before it did not sign it/, new RegExp(`it is by the key ${foreign.publicKey}`)],
  ],
  [
    'a hand-over from a foreign key, and a seal by the key that it hands over to',
    (sealed, covers) => [handOver(foreign, testKey(3), sealed, foreign), sealBy(testKey(3), covers)],
    [
      new RegExp(
        `it hands over from the key ${foreign.publicKey}, but ${genuine.publicKey} signed until then`,
      ),
      new RegExp(`it is by the key ${testKey(3).publicKey}`),
    ],
  ],
  [
    'a seal under the name of the genuine key that a foreign one signed',
    (_, covers) => [sealBy({ ...foreign, publicKey: genuine.publicKey }, covers)],
    [/its signature is not that of its key/],
  ],
]

/**
 * A log that was sealed twice; an event between the seals is changed, the stored digests are adapted, and the
 * last seal is replaced.
 */
const forgedLog = async (t: TestContext, forge: Forgery) => {
  const { log, pool, store, seal } = await auditWorld(t)
  const events = await everyKind()
  await appendEach(log, events.slice(0, 60))
  await seal(genuine)
  await appendEach(log, events.slice(60))
  const throughOrdinal = (await seal(genuine))!
  const redigest = async (): Promise<void> => {
    await store.clear()
    const chain = await openChain(store, 0)
    await chainToHead(log, chain)
    await chain.save()
  }
  await tamper(pool, [`update log.events set data = data || ' ' where position = 80`])
  await redigest()
  const all = await allEvents(log)
  const [first, last] = all.filter(({ stream }) => stream === sealStream)
  const throughEventId = all[throughOrdinal - 1]!.id
  const digest = (await store.at(throughOrdinal))!.toString('hex')
  const forged = forge(JSON.parse(first!.data), { throughOrdinal, throughEventId, digest })
  const [instead, ...more] = forged
  await tamper(pool, [
    'update log.events set type = $1, data = $2 where id = $3::uuid',
    [instead.type, JSON.stringify(instead.data), last!.id],
  ])
  const { metadata } = last!
  if (more.length > 0)
    await log.append(
      sealStream,
      last!.revision,
      more.map(({ type, data }) => ({ id: newEventId(), type, data: JSON.stringify(data), metadata })),
    )
  await redigest()
  const verified = await verifyLog(
    { pool, log, groups: [], logInPostgres: true },
    { runId: newId('vrf'), publicKey: genuine.publicKey, exported: null },
  )
  return { forgedFrom: throughOrdinal + 1, findings: verified.findings.map(findingText) }
}

describe('events changed after a genuine seal', () => {
  for (const [what, forge, found] of forgeries)
    test(`are not hidden by ${what}`, async (t) => {
      const { findings, forgedFrom } = await forgedLog(t, forge)
      assert.equal(findings.length, found.length, findings.join('\n'))
      for (const [nth, problem] of found.entries()) {
        assert.match(findings[nth]!, new RegExp(`^seals: event ${forgedFrom + nth} `))
        assert.match(findings[nth]!, problem)
      }
    })

  test('are hidden only by an owner of the signing key or of its successor', async (t) => {
    for (const forge of [byTheGenuineKey, handedOver])
      assert.deepEqual((await forgedLog(t, forge)).findings, [])
  })
})

describe('a file of seals', () => {
  const covers = { throughOrdinal: 9, throughEventId: newEventId(), digest: 'ab'.repeat(32) }
  const first = sealBy(genuine, { ...covers, throughOrdinal: 5 })
  const fileOf = (forge: Forgery): SealsFile => ({
    format: 'farebox-seals',
    version: 1,
    logId: 'log',
    firstEventId: newEventId(),
    exportedAt: at,
    seals: [first, ...forge(first.data, covers)],
  })

  for (const [what, forge, [problem]] of forgeries)
    test(`is refused because of ${what}`, () => {
      assert.throws(
        () => trustedSeals(fileOf(forge), genuine.publicKey),
        (error) => {
          assert.ok(error instanceof SealsFileRefused)
          assert.match(error.message, /^seal 2 of the file is not genuine/)
          assert.match(error.message, problem!)
          return true
        },
      )
    })

  test('is accepted with seals of the pinned key and of its successor', () => {
    for (const forge of [byTheGenuineKey, handedOver])
      assert.deepEqual(
        trustedSeals(fileOf(forge), genuine.publicKey).map(({ throughOrdinal }) => throughOrdinal),
        [5, 9],
      )
  })
})
