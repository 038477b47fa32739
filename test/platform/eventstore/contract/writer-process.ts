import assert from 'node:assert/strict'
import { setTimeout as delay } from 'node:timers/promises'
import type { StreamName } from '../../../../src/kernel/streams.ts'
import type { EventLog, Expected } from '../../../../src/platform/eventstore/port.ts'
import { someEvents } from './events.ts'
import type { LogUnderTest } from './under-test.ts'
import type { WriterTask } from './writer.ts'

/** How often an append is sent until it counts as a failure; at 20 ms each this outlasts a restart of a server. */
const maxTries = 1_500

const { module, argument, streams, perStream } = JSON.parse(process.argv[2]!) as LogUnderTest['elsewhere'] &
  WriterTask
const { openLog } = (await import(module)) as { openLog(argument: string): Promise<EventLog> }
const log = await openLog(argument)

const appendOnce = async (stream: StreamName, expected: Expected): Promise<number> => {
  const item = { appends: [{ stream, expected, events: someEvents(1) }] }
  for (let attempt = 0; attempt < maxTries; attempt++) {
    const [outcome] = await log.appendAll([item])
    if (outcome!.status === 'landed') return outcome!.appended[0]!.revision
    assert(outcome!.status === 'unknown' || outcome!.status === 'unavailable', JSON.stringify(outcome))
    await delay(20)
  }
  throw new Error(`${stream} did not take an append in ${maxTries} tries`)
}

await Promise.all(
  streams.map(async (stream) => {
    let last: Expected = 'noStream'
    for (let n = 0; n < perStream; n++) last = await appendOnce(stream, last)
    assert.equal(last, perStream - 1)
  }),
)
await log.close()
process.exit(0)
