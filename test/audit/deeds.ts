import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { createEventReader } from '../../src/audit/checks/event-reader.ts'
import { findingText } from '../../src/audit/checks/finding.ts'
import { verifyLog } from '../../src/audit/verify.ts'
import { newEventId } from '../../src/kernel/ids.ts'
import type { StreamName } from '../../src/kernel/streams.ts'
import type { StoredEvent } from '../../src/platform/eventstore/port.ts'
import { memoryInvariants } from './memory-invariants.ts'
import { auditWorld, everyKind, tamper } from './world.ts'

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

/** The history after the deeds. Positions and revisions of the other events stay. */
const after = (events: readonly StoredEvent[], deeds: readonly Deed[]): readonly StoredEvent[] => {
  let list = [...events]
  for (const deed of deeds)
    if ('change' in deed) {
      const { change, type = change.type, data = dataOf(change), metadata = {} } = deed
      list = list.map((event) =>
        event.position === change.position
          ? {
              ...change,
              type,
              data: JSON.stringify(data),
              metadata: JSON.stringify({ ...JSON.parse(change.metadata), ...metadata }),
            }
          : event,
      )
    } else if ('remove' in deed) list = list.filter(({ position }) => position !== deed.remove.position)
    else {
      const { add, data } = deed
      const stream = (deed.stream ?? add.stream) as StreamName
      const [last, before] = [list.at(-1)!, list.findLast((event) => event.stream === stream)]
      list.push({
        id: newEventId(),
        stream,
        revision: 1 + (before?.revision ?? -1),
        position: last.position + 1,
        type: add.type,
        data: JSON.stringify(data),
        metadata: last.metadata,
      })
    }
  return list
}

/** What the invariants report of a history. */
export const violationsOf = (events: readonly StoredEvent[]): readonly string[] => {
  const state = memoryInvariants()
  return createEventReader()
    .read(events, 1)
    .flatMap(({ event }) => (event === null ? [] : state.take(event)))
    .map(({ eventType, problem }) => `${eventType}: ${problem}`)
}

/** What a verification reports of a history in Postgres. */
const verified = async ({ pool, log }: World, events: readonly StoredEvent[]): Promise<readonly string[]> => {
  await tamper(
    pool,
    ['delete from log.events'],
    [
      `insert into log.events (position, stream, revision, id, type, data, metadata)
         select position, stream, revision, id, type, data, metadata
           from jsonb_populate_recordset(null::log.events, $1)`,
      [JSON.stringify(events)],
    ],
    ['update log.head set last_position = (select max(position) from log.events)'],
  )
  const { findings } = await verifyLog(
    { pool, log, groups: [], logInPostgres: true },
    { runId: newEventId(), publicKey: '', exported: null },
  )
  return findings.map(findingText)
}

const findsEach = async (
  t: TestContext,
  cases: Cases,
  find: (events: readonly StoredEvent[]) => readonly string[] | Promise<readonly string[]>,
): Promise<void> => {
  const events = await everyKind()
  assert.deepEqual(await find(events), [])
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
      assert.match((await find(after(events, deeds))).join('\n'), finding)
    })
}

/** Does each of the deeds to a history of every kind of event, and sees that the invariants report it. */
export const invariantsFindEach = (t: TestContext, cases: Cases): Promise<void> =>
  findsEach(t, cases, violationsOf)

/** The same with a verification, which also finds what is missing at the end of the log. */
export const verificationFindsEach = async (t: TestContext, cases: Cases): Promise<void> => {
  const world = await auditWorld(t)
  await findsEach(t, cases, (events) => verified(world, events))
}
