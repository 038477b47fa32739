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

const maxParallelProbes = 128
/** How often a standby process tries to become the leader, milliseconds. */
const standbyMs = 10_000
const cleanupIntervalMs = 60 * 60_000

/** Probes an exit. A failed probe is repeated at once before the exit counts as dead. */
const probeTwice = async (probeExit: ProbeExit, { terms: { via }, login }: Candidate) => {
  const first = await probeExit({ via, login })
  return first.ok ? first : probeExit({ via, login })
}

/** Probes one exit. */
export type ProbeExit = typeof probe

const inParallel = async <Item>(
  items: readonly Item[],
  work: (item: Item) => Promise<void>,
): Promise<void> => {
  const remaining = items.values()
  const worker = async (): Promise<void> => {
    for (const item of remaining) await work(item)
  }
  await Promise.all(Array.from({ length: Math.min(maxParallelProbes, items.length) }, worker))
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
  const { scheduler, pool, live, health, table, machine, probe: probeExit, clock, logger } = deps
  let cleanedUpAtMs = Number.NEGATIVE_INFINITY

  const findChanges = async (exits: readonly Candidate[]): Promise<readonly HealthChange[]> => {
    const candidatesByProbe = Map.groupBy(exits, ({ terms: { via }, login }) => probeKey({ via, login }))
    const changes: HealthChange[] = []
    await inParallel([...candidatesByProbe.values()], async (sameEndpoint) => {
      const { ok, problem } = await probeTwice(probeExit, sameEndpoint[0]!)
      for (const { exitId } of sameEndpoint)
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
  const probeLocalExits = async (): Promise<void> => {
    const exits = exitsOf(true)
    if (exits.length === 0) return
    health.learn(await findChanges(exits))
    await machine.report(exits.map(({ exitId }) => exitId).filter((exitId) => !health.isAlive(exitId)))
  }

  const localProbes = scheduler.start(machineExitProbes, probeLocalExits)
  const leaderProbes = scheduler.lead(
    exitProbes,
    ({ repeat }) =>
      repeat(async () => {
        await table.probed(await findChanges(exitsOf(false)))
        if (hasElapsed(cleanedUpAtMs, clock(), cleanupIntervalMs)) {
          cleanedUpAtMs = clock()
          await deleteExpiredSessions(pool, clock())
        }
        return exitProbes.trigger.everyMs
      }),
    { standbyMs },
  )
  return {
    stop: async () => {
      await Promise.all([localProbes.stop(), leaderProbes.stop()])
    },
  }
}
