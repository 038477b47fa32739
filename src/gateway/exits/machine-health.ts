import type pg from 'pg'
import type { ExitVia } from './events.ts'

/** Whether an exit lies on the machine that dials it, so that each machine has its own answer to whether it works. */
export const isLocal = ({ kind }: ExitVia): boolean => kind === 'direct' || kind === 'prefix'

/** A machine that told nothing for so long runs no gateway any more. */
const goneAfter = '20 seconds'
const tellAgainAfter = '5 seconds'

/** What machines tell of exits that lie on them, for those who run no gateway. */
export type MachineHealth = {
  /** Tells what does not work here; a change at once, the same again every five seconds. */
  tell(deadExits: readonly string[]): Promise<void>
}

export const createMachineHealth = (pool: pg.Pool, machine: string): MachineHealth => ({
  tell: async (deadExits) => {
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
export const deadEverywhere = `
  select coalesce(jsonb_agg(exit_id), '[]') from (
    select exit_id from work.gateway_machines, unnest(dead_exits) exit_id
     where looked_at > clock_timestamp() - interval '${goneAfter}'
     group by exit_id
    having count(*) = (select count(*) from work.gateway_machines
                        where looked_at > clock_timestamp() - interval '${goneAfter}')) dead`
