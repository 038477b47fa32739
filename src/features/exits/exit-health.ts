import type pg from 'pg'
import type { ExitVia } from '../../domain/exits/events.ts'

/** An exit counts as dead after this many consecutive failed connections of this process. */
const failuresToDeath = 3

export type HealthChange = {
  readonly exitId: string
  readonly alive: boolean
  readonly problem: string | null
}

/**
 * Which exits are alive in the view of this process: from its own connections, and from the reports of other processes.
 */
export type ExitHealth = {
  isAlive(exitId: string): boolean
  /** Increases with every change. */
  readonly version: () => number
  /** A connection through it succeeded. */
  connected(exitId: string): void
  /**
   * A connection to the exit itself failed; `local`: it is on this machine, so the failure is not reported to other
   * processes.
   */
  failed(exitId: string, local: boolean): void
  /** Results of other processes. */
  applyChanges(changes: readonly HealthChange[]): void
  /** Resolves when the results of this process are reported. */
  flush(): Promise<void>
}

/** The shared health table. Each change is written once. */
export type HealthTable = {
  /**
   * Connections failed. Probes cannot mark the exit alive for 5 s at first, and for twice as long after each further
   * failure within ten minutes.
   */
  recordFailure(exitId: string, problem: string): Promise<void>
  /** Probe results. Only changes are written. */
  recordProbes(results: readonly HealthChange[]): Promise<void>
}

export const createHealthTable = (pool: pg.Pool): HealthTable => ({
  recordFailure: async (exitId, problem) => {
    await pool.query(
      `insert into work.exit_health as health (exit_id, alive, problem, strikes, retry_at)
       values ($1::text, false, $2::text, 1, clock_timestamp() + interval '5 seconds')
       on conflict (exit_id) do update
         set alive = false, problem = excluded.problem, changed_at = clock_timestamp(),
             strikes = case when health.changed_at < clock_timestamp() - interval '10 minutes' then 1
                            else least(health.strikes + 1, 7) end,
             retry_at = clock_timestamp() + interval '5 seconds' *
               case when health.changed_at < clock_timestamp() - interval '10 minutes' then 1
                    else power(2, least(health.strikes, 6)) end
         where health.alive`,
      [exitId, problem],
    )
  },
  recordProbes: async (results) => {
    if (results.length === 0) return
    await pool.query(
      `insert into work.exit_health as health (exit_id, alive, problem)
       select * from unnest($1::text[], $2::boolean[], $3::text[]) found (exit_id, alive, problem)
       order by exit_id
       on conflict (exit_id) do update
         set alive = excluded.alive, problem = excluded.problem, changed_at = clock_timestamp()
         where health.alive <> excluded.alive and (not excluded.alive or health.retry_at <= clock_timestamp())`,
      [
        results.map(({ exitId }) => exitId),
        results.map(({ alive }) => alive),
        results.map(({ problem }) => problem),
      ],
    )
  },
})

export const createExitHealth = (dependencies: {
  readonly table: Pick<HealthTable, 'recordFailure'>
  readonly onError: (error: unknown) => void
}): ExitHealth => {
  const dead = new Set<string>()
  const failures = new Map<string, number>()
  let version = 0
  let pendingWrites: Promise<void> = Promise.resolve()

  return {
    isAlive: (exitId) => !dead.has(exitId),
    version: () => version,
    connected: (exitId) => {
      failures.delete(exitId)
    },
    failed: (exitId, local) => {
      const count = (failures.get(exitId) ?? 0) + 1
      failures.set(exitId, count)
      if (count < failuresToDeath || dead.has(exitId)) return
      dead.add(exitId)
      version += 1
      if (local) return
      const problem = `${failuresToDeath} connections to it failed in a row`
      pendingWrites = pendingWrites
        .then(() => dependencies.table.recordFailure(exitId, problem))
        .catch(dependencies.onError)
    },
    applyChanges: (changes) => {
      for (const { exitId, alive } of changes) {
        if (alive) {
          failures.delete(exitId)
          if (dead.delete(exitId)) version += 1
        } else if (!dead.has(exitId)) {
          dead.add(exitId)
          version += 1
        }
      }
    },
    flush: () => pendingWrites,
  }
}

/** Whether the exit is on the machine that uses it. Then its health differs between machines. */
export const isLocal = ({ kind }: ExitVia): boolean => kind === 'direct' || kind === 'prefix'

/** A machine without a report for this time runs no gateway any more. */
const machineTimeout = '20 seconds'
const rewriteAfter = '5 seconds'

/** Reports of machines about their own exits, for processes without a gateway. */
export type MachineHealth = {
  /** Reports the dead exits of this machine: changes at once, the same list again every five seconds. */
  report(deadExits: readonly string[]): Promise<void>
}

export const createMachineHealth = (pool: pg.Pool, machine: string): MachineHealth => ({
  report: async (deadExits) => {
    await pool.query({
      name: 'machine-health',
      text: `insert into work.gateway_machines as known (machine, dead_exits, looked_at)
             values ($1::text, $2::text[], clock_timestamp())
             on conflict (machine) do update set dead_exits = excluded.dead_exits, looked_at = excluded.looked_at
              where known.dead_exits <> excluded.dead_exits
                 or known.looked_at < excluded.looked_at - interval '${rewriteAfter}'`,
      values: [machine, deadExits],
    })
  },
})

/** SQL for a JSON array of the exits that are dead on all machines with a running gateway. */
export const deadOnAllMachines = `
  select coalesce(jsonb_agg(exit_id), '[]') from (
    select exit_id from work.gateway_machines, unnest(dead_exits) exit_id
     where looked_at > clock_timestamp() - interval '${machineTimeout}'
     group by exit_id
    having count(*) = (select count(*) from work.gateway_machines
                        where looked_at > clock_timestamp() - interval '${machineTimeout}')) dead`
