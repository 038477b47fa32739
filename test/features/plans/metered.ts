import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import type { PlanEvent } from '../../../src/domain/plans/events.ts'
import { createMeter } from '../../../src/features/plans/meter-traffic.ts'
import type { PlanId } from '../../../src/kernel/ids.ts'
import { planStream } from '../../../src/kernel/streams.ts'
import type { CommandRunner } from '../../../src/platform/commands/command.ts'
import { decode } from '../../../src/platform/eventstore/codec.ts'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'
import { createLogger } from '../../../src/platform/http/logging.ts'
import { postgresWorld, runnerOver } from '../../platform/commands/world.ts'

const logger = createLogger('fatal')

const eventsOf = async (log: EventLog, planId: PlanId): Promise<readonly PlanEvent[]> => {
  const events: PlanEvent[] = []
  for await (const stored of log.readStream(planStream(planId))) events.push(decode(stored) as PlanEvent)
  return events
}

/** A plan's traffic in the log: the events add up, and the last one contains the sum. */
export const loggedOf = async (log: EventLog, planId: PlanId) => {
  const events = await eventsOf(log, planId)
  const metered = events.filter((event) => event.type === 'TrafficMetered')
  const bytes = metered.reduce((sum, { data }) => sum + data.bytes, 0)
  const usedBytes = metered.at(-1)?.data.usedBytes ?? 0
  assert.equal(bytes, usedBytes, 'the parts are not the sum')
  return {
    usedBytes,
    metered: metered.length,
    ranLow: events.filter(({ type }) => type === 'PlanRanLow').length,
    exhausted: events.filter(({ type }) => type === 'PlanExhausted').length,
  }
}

export const metered = async (t: TestContext) => {
  const { pool, url, wire: log, elsewhere } = await postgresWorld(t)
  let offsetMs = 0
  const clock = () => Date.now() + offsetMs
  const over = (one: EventLog): CommandRunner => {
    const runner = runnerOver(one, { clock })
    t.after(() => runner.close())
    return runner
  }
  return {
    pool,
    url,
    log,
    runner: over(log),
    /** Another process's. */
    other: over(elsewhere),
    wait: (ms: number) => {
      offsetMs += ms
    },
    meterOver: (over: CommandRunner) => createMeter({ pool, runner: over, clock, logger }),
  }
}
