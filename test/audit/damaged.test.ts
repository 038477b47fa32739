import assert from 'node:assert/strict'
import { test } from 'node:test'
import { groups } from '../../projections/groups.ts'
import { findingText } from '../../src/audit/checks/finding.ts'
import { verifyLog } from '../../src/audit/verify.ts'
import { newId } from '../../src/kernel/ids.ts'
import type { StoredEvent } from '../../src/platform/eventstore/port.ts'
import { caughtUp, startEngine } from '../platform/projections/engine.ts'
import { allEvents, auditWorld, sealedHistory, tamper, testKey } from './world.ts'

/** Values that replace a value. */
const wrong: readonly unknown[] = [null, 'x', -1.5, 1e300, true, [], {}, 'a\u0000b']

/** So many findings of a check are listed. */
const maxFindings = 100

type Damage = { readonly ordinal: number; readonly field: string; readonly data: string }

/** Each field of each kind of event with each wrong value, dealt out to the events of that kind: at most one an event a round. */
const damages = (events: readonly StoredEvent[]): readonly (readonly Damage[])[] => {
  const rounds: Damage[][] = []
  const ofKind = Map.groupBy(
    events.map((event, at) => ({ event, ordinal: at + 1 })),
    ({ event }) => event.type,
  )
  for (const [kind, list] of ofKind) {
    const { event } = list[0]!
    const data = JSON.parse(event.data) as Record<string, unknown>
    const all = Object.keys(data).flatMap((field) => [
      ...wrong.map((value) => ({ field, data: { ...data, [field]: value } })),
      { field, data: Object.fromEntries(Object.entries(data).filter(([name]) => name !== field)) },
    ])
    const real = all.filter((damage) => JSON.stringify(damage.data) !== event.data)
    for (const [at, damage] of real.entries()) {
      const round = Math.floor(at / list.length)
      rounds[round] ??= []
      const { ordinal } = list[at % list.length]!
      rounds[round].push({ ordinal, field: `${kind}.${damage.field}`, data: JSON.stringify(damage.data) })
    }
  }
  return rounds.flatMap((round) =>
    Array.from({ length: Math.ceil(round.length / maxFindings) }, (_, at) =>
      round.slice(at * maxFindings, (at + 1) * maxFindings),
    ),
  )
}

test('verification ends and finds every arbitrary value in any field of any event', async (t) => {
  const world = await auditWorld(t)
  const { pool, log } = world
  await sealedHistory(world)
  const engine = await startEngine(t, pool, log, groups)
  await caughtUp(engine, log)
  await engine.stop()
  await pool.query('create table public.saved as select * from log.events')
  const verified = () =>
    verifyLog(
      { pool, log, groups, logInPostgres: true },
      { runId: newId('vrf'), publicKey: testKey(1).publicKey, exported: null },
    )
  const { findings: clean, seals } = await verified()
  assert.deepEqual(clean.map(findingText), [])
  const all = damages(await allEvents(log))
  const some = process.env.FAREBOX_SOAK === '1' ? all : all.filter((_, at) => at % 16 === 0)
  let tried = 0
  for (const round of some) {
    // The other events are checked with the seals.
    const damaged = round.filter(
      ({ ordinal, field }) =>
        ordinal <= seals.sealedThrough && !/^(?:LogSealed|SealKeyRotated)\./.test(field),
    )
    await tamper(
      pool,
      [
        'update log.events e set data = k.data from public.saved k where k.position = e.position and k.data <> e.data',
      ],
      ...damaged.map(
        ({ ordinal, data }) =>
          ['update log.events set data = $2::text where position = $1::bigint', [ordinal, data]] as [
            string,
            unknown[],
          ],
      ),
    )
    const { findings } = await verified()
    const found = new Set(
      findings.flatMap((finding) =>
        finding.where === 'event' && finding.check === 'seals' ? [finding.event.ordinal] : [],
      ),
    )
    for (const { ordinal, field } of damaged)
      assert.ok(found.has(ordinal), `${field} of event ${ordinal} was changed and not found`)
    tried += damaged.length
  }
  t.diagnostic(`${tried} changed fields in ${some.length} runs`)
})
