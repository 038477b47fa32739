import type pg from 'pg'
import type { Logger } from 'pino'
import {
  type Candidate,
  deleteExpiredSessions,
  type ExitHealth,
  type HealthChange,
  type HealthTable,
  isLocal,
  type LiveExits,
  type MachineHealth,
  type probe,
  probeKey,
} from '../../features/exits/index.ts'
import { type Clock, hasElapsed } from '../../kernel/clock.ts'
import type { RunningWorker, Scheduler } from '../../platform/work/scheduler.ts'
import { exitProbes, machineExitProbes } from '../workers.ts'

const atOnce = 128
/** How often a standby process tries to become the leader, milliseconds. */
const standbyMs = 10_000
const cleanupIntervalMs = 60 * 60_000

/** Probes an exit. A failed probe is repeated at once before the exit counts as dead. */
const lookAt = async (look: ProbeExit, { terms: { via }, login }: Candidate) => {
  const first = await look({ via, login })
  return first.ok ? first : look({ via, login })
}

/** Probes one exit. */
export type ProbeExit = typeof probe

const inParallel = async <Item>(
  items: readonly Item[],
  work: (item: Item) => Promise<void>,
): Promise<void> => {
  const waiting = items.values()
  const worker = async (): Promise<void> => {
    for (const item of waiting) await work(item)
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, worker))
}

/**
 * Probes every endpoint of the exits every two seconds and reports changes to all processes. One leader does this; when
 * it ends, another process takes over. Each machine probes its local exits itself, because the result of another
 * machine does not apply to them. A dead exit is found within 7 seconds: 2 until the next probe, and 2.5 for each of
 * two attempts without an answer.
 */
export const startProbes = (deps: {
  readonly scheduler: Scheduler
  readonly pool: pg.Pool
  readonly live: Pick<LiveExits, 'index'>
  readonly health: Pick<ExitHealth, 'isAlive' | 'learn'>
  readonly table: Pick<HealthTable, 'probed'>
  readonly machine: MachineHealth
  readonly probe: ProbeExit
  readonly clock: Clock
  readonly logger: Logger
}): Pick<RunningWorker, 'stop'> => {
  const { scheduler, pool, live, health, table, machine, probe: look, clock, logger } = deps
  let forgotAtMs = Number.NEGATIVE_INFINITY

  const found = async (exits: readonly Candidate[]): Promise<readonly HealthChange[]> => {
    const places = Map.groupBy(exits, ({ terms: { via }, login }) => probeKey({ via, login }))
    const changes: HealthChange[] = []
    await inParallel([...places.values()], async (same) => {
      const { ok, problem } = await lookAt(look, same[0]!)
      for (const { exitId } of same)
        if (health.isAlive(exitId) !== ok) changes.push({ exitId, alive: ok, problem })
    })
    for (const change of changes) logger.debug(change, 'an exit changed')
    return changes
  }
  const exitsOf = (local: boolean): readonly Candidate[] =>
    [...live.index().byExit.values()].flatMap(([candidate]) =>
      candidate && isLocal(candidate.terms.via) === local ? [candidate] : [],
    )
  /** Probes the exits of this machine. Reports only if there are any. */
  const roundHere = async (): Promise<void> => {
    const exits = exitsOf(true)
    if (exits.length === 0) return
    health.learn(await found(exits))
    await machine.report(exits.map(({ exitId }) => exitId).filter((exitId) => !health.isAlive(exitId)))
  }

  const here = scheduler.start(machineExitProbes, roundHere)
  const elsewhere = scheduler.lead(
    exitProbes,
    ({ repeat }) =>
      repeat(async () => {
        await table.probed(await found(exitsOf(false)))
        if (hasElapsed(forgotAtMs, clock(), cleanupIntervalMs)) {
          forgotAtMs = clock()
          await deleteExpiredSessions(pool, clock())
        }
        return exitProbes.trigger.everyMs
      }),
    { standbyMs },
  )
  return {
    stop: async () => {
      await Promise.all([here.stop(), elsewhere.stop()])
    },
  }
}
