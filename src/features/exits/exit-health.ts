import type pg from 'pg'
import type { ExitVia } from '../../domain/exits/events.ts'

/** Failures in a row, of any connections of this process, after which an exit counts as dead. */
const failuresToDeath = 3

export type HealthChange = {
  readonly exitId: string
  readonly alive: boolean
  readonly problem: string | null
}

/** Which exits are alive, as this process knows it: from its own connections, and from what all tell each other. */
export type ExitHealth = {
  isAlive(exitId: string): boolean
  /** Rises with every change. */
  readonly version: () => number
  /** A connection was made through it. */
  connected(exitId: string): void
  /** A connection to the exit itself failed; `local`: it lies on this machine, so others are not told. */
  failed(exitId: string, local: boolean): void
  /** What others found. */
  learn(changes: readonly HealthChange[]): void
  /** Resolves when what was found here is told. */
  flush(): Promise<void>
}

/** The common table of health, in which a change is told once. */
export type HealthTable = {
  /** Connections failed: it rests at first 5 s, and twice as long each time within ten minutes, before probes bring it back. */
  struck(exitId: string, problem: string): Promise<void>
  /** What probes found: only what differs is written. */
  probed(results: readonly HealthChange[]): Promise<void>
}

export const createHealthTable = (pool: pg.Pool): HealthTable => ({
  struck: async (exitId, problem) => {
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
  probed: async (results) => {
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

export const createExitHealth = (deps: {
  readonly table: Pick<HealthTable, 'struck'>
  readonly onError: (error: unknown) => void
}): ExitHealth => {
  const dead = new Set<string>()
  const failures = new Map<string, number>()
  let version = 0
  let telling: Promise<void> = Promise.resolve()

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
      telling = telling.then(() => deps.table.struck(exitId, problem)).catch(deps.onError)
    },
    learn: (changes) => {
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
    flush: () => telling,
  }
}

/** Whether an exit lies on the machine that dials it, so that each machine has its own answer to whether it works. */
export const isLocal = ({ kind }: ExitVia): boolean => kind === 'direct' || kind === 'prefix'

/** A machine that told nothing for so long runs no gateway any more. */
const goneAfter = '20 seconds'
const tellAgainAfter = '5 seconds'

/** What machines tell of exits that lie on them, for those who run no gateway. */
export type MachineHealth = {
  /** Tells what does not work here; a change at once, the same again every five seconds. */
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
                 or known.looked_at < excluded.looked_at - interval '${tellAgainAfter}'`,
      values: [machine, deadExits],
    })
  },
})

/** Exits that work on none of the machines that run gateways now, as SQL that gives a JSON array. */
export const deadOnAllMachinesSql = `
  select coalesce(jsonb_agg(exit_id), '[]') from (
    select exit_id from work.gateway_machines, unnest(dead_exits) exit_id
     where looked_at > clock_timestamp() - interval '${goneAfter}'
     group by exit_id
    having count(*) = (select count(*) from work.gateway_machines
                        where looked_at > clock_timestamp() - interval '${goneAfter}')) dead`
