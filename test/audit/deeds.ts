import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { findingText } from '../../src/audit/checks/finding.ts'
import { verifyLog } from '../../src/audit/verify.ts'
import { newEventId } from '../../src/kernel/ids.ts'
import type { StoredEvent } from '../../src/platform/eventstore/port.ts'
import { allEvents, appendEach, auditWorld, everyKind, tamper } from './world.ts'

// biome-ignore lint/suspicious/noExplicitAny: facts of many shapes
export type Facts = any

/**
 * A change of the log outside the service: other data (or type, or other metadata), a removed event, or one
 * more at the end.
 */
export type Deed =
  | { readonly change: StoredEvent; readonly type?: string; readonly data?: Facts; readonly metadata?: Facts }
  | { readonly remove: StoredEvent }
  | { readonly add: StoredEvent; readonly stream?: string; readonly data: Facts }

export type Log = {
  readonly events: readonly StoredEvent[]
  readonly first: (type: string, where?: (data: Facts) => boolean) => StoredEvent
  readonly last: (stream: string) => StoredEvent
}

/** The changes by name, each with its finding. */
export type Cases = Readonly<
  Record<string, readonly [deed: (log: Log) => Deed | readonly Deed[], finding: RegExp]>
>

export const dataOf = ({ data }: StoredEvent): Facts => JSON.parse(data)

/** The event with some of its data replaced. */
export const changed = (event: StoredEvent, data: Facts): Deed => ({
  change: event,
  data: { ...dataOf(event), ...data },
})

type World = Awaited<ReturnType<typeof auditWorld>>

const verified = async ({ pool, log }: World): Promise<readonly string[]> => {
  const { findings } = await verifyLog(
    { pool, log, groups: [], logInPostgres: true },
    { runId: newEventId(), publicKey: '', exported: null },
  )
  return findings.map(findingText)
}

const restore = [
  ['delete from log.events'],
  ['insert into log.events select * from public.saved'],
  ['update log.head set last_position = (select max(position) from log.events)'],
] as const

const statementOf = (deed: Deed): readonly [string, unknown[]] => {
  if ('change' in deed) {
    const { change, type = change.type, data = dataOf(change), metadata = {} } = deed
    return [
      'update log.events set data = $2, type = $3, metadata = $4 where position = $1',
      [
        change.position,
        JSON.stringify(data),
        type,
        JSON.stringify({ ...JSON.parse(change.metadata), ...metadata }),
      ],
    ]
  }
  if ('remove' in deed) return ['delete from log.events where position = $1', [deed.remove.position]]
  const { stream, type } = deed.add
  return [
    `insert into log.events
       select 1 + (select max(position) from log.events), $1::text,
              1 + coalesce((select max(revision) from log.events where stream = $1::text), -1), $2::uuid,
              $3::text, $4::text, (select metadata from log.events order by position desc limit 1)`,
    [deed.stream ?? stream, newEventId(), type, JSON.stringify(deed.data)],
  ]
}

/** Does each of the deeds to a log of every kind of event, and sees that a verification finds it. */
export const findsEach = async (t: TestContext, cases: Cases): Promise<void> => {
  const world = await auditWorld(t)
  await appendEach(world.log, await everyKind())
  await world.pool.query('create table public.saved as select * from log.events')
  assert.deepEqual(await verified(world), [])
  const events = await allEvents(world.log)
  const found = (event: StoredEvent | undefined): StoredEvent => event ?? assert.fail('no such event')
  const log: Log = {
    events,
    first: (type, where = () => true) =>
      found(events.find((event) => event.type === type && where(dataOf(event)))),
    last: (stream) => found(events.findLast((event) => event.stream === stream)),
  }
  for (const [what, [deed, finding]] of Object.entries(cases))
    await t.test(what, async () => {
      const deeds = [deed(log)].flat() as Deed[]
      await tamper(world.pool, ...restore, ...deeds.map(statementOf), [
        'update log.head set last_position = (select max(position) from log.events)',
      ])
      assert.match((await verified(world)).join('\n'), finding)
    })
}
