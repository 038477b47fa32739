import assert from 'node:assert/strict'
import { test } from 'node:test'
import { unsealedWait } from '../../src/audit/overdue-checks.ts'
import { rotateSealKey } from '../../src/audit/seals/sealing.ts'
import { sealStatement } from '../../src/audit/seals/seals-file.ts'
import type { LogSealed } from '../../src/domain/seals/events.ts'
import { newEventId } from '../../src/kernel/ids.ts'
import { sealStream } from '../../src/kernel/streams.ts'
import { createCodec } from '../../src/platform/eventstore/codec.ts'
import type { EventLog } from '../../src/platform/eventstore/port.ts'
import { runnerOver } from '../platform/commands/world.ts'
import { asOperator } from '../support/demo-env.ts'
import { testApp } from '../support/test-app.ts'
import { until } from '../support/until.ts'
import { allEvents, appendEach, auditWorld, cause, everyKind, startMs, testKey } from './world.ts'

const codec = createCodec()
const waitOf = (log: EventLog, key: number): Promise<number | null> =>
  unsealedWait({ log, codec, clock: () => startMs, keys: { seal: Buffer.alloc(32, key) } })

test('a seal that the key did not sign, and a copy of a seal, seal nothing', async (t) => {
  const { log, seal } = await auditWorld(t)
  const events = await everyKind()
  await appendEach(log, events.slice(0, 20))
  await seal()
  assert.equal(await waitOf(log, 1), null)
  await appendEach(log, events.slice(20, 22))
  const waitedMs = startMs - Date.parse(JSON.parse(events[20]!.metadata).recordedAt)
  assert.equal(await waitOf(log, 1), waitedMs)
  const genuine = (await allEvents(log)).find(({ stream }) => stream === sealStream)!
  const sealed: LogSealed['data'] = JSON.parse(genuine.data)
  const higher = { ...sealed, throughOrdinal: 22 }
  const foreign = { ...higher, publicKey: testKey(9).publicKey }
  const forgeries = [{}, sealed, higher, { ...foreign, signature: testKey(9).sign(sealStatement(foreign)) }]
  for (const data of forgeries) {
    const { revision } = (await log.lastOf(sealStream))!
    const { type, metadata } = genuine
    await log.append(sealStream, revision, [{ id: newEventId(), type, data: JSON.stringify(data), metadata }])
    assert.equal(await waitOf(log, 1), waitedMs, JSON.stringify(data))
  }
})

test('a change of the key leaves nothing unsealed, for the old key and for the new one', async (t) => {
  const { log, seal } = await auditWorld(t)
  await appendEach(log, (await everyKind()).slice(0, 20))
  await seal()
  const runner = runnerOver(log, { clock: () => startMs })
  t.after(() => runner.close())
  await rotateSealKey({ runner, clock: () => startMs, key: testKey(1), next: testKey(2) }, cause)
  assert.deepEqual([await waitOf(log, 1), await waitOf(log, 2)], [null, null])
  assert.notEqual(await waitOf(log, 3), null, 'a key that is not of this log')
})

test('a late seal is a problem, whatever the runs of the sealer say', async (t) => {
  const app = await testApp(t, { own: 'file', settings: { FAREBOX_SEAL_SECONDS: '1' } })
  await app.customer({ cents: 1_000 })
  await app.core.pool.query(
    `insert into work.worker_runs (name, host, pid, process, started_at, finished_at, failures, ended, reported_at)
     values ('sealer', 'here', 1, 'auditor', now(), now(), 0, false, now())`,
  )
  app.ahead(120_000)
  const metrics = async (): Promise<string> => (await fetch(`${app.baseUrl}/metrics`, asOperator)).text()
  await until(async () => /^farebox_seal_problem 1$/m.test(await metrics()), { what: 'the alarm' })
})
