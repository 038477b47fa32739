import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { PlanId } from '../../kernel/ids.ts'
import { CommandOverload } from '../../platform/eventstore/commands/command.ts'

/** Gateways renew their leases twice a second, and give back what they hold of a plan whose leases are paused. */
const waitMs = 3_000
const everyMs = 20
const pauseSeconds = 5
/** A gateway that died gives nothing back: its leases end by themselves. */
const leaseSeconds = 60

/**
 * Has every gateway count what it sold of a plan and give back the rest, and sells nothing of it for some seconds, so that
 * something may be decided on what is left.
 * @throws CommandOverload when a gateway does not answer; its leases end within a minute
 */
export const recallLeases = async (pool: pg.Pool, planId: PlanId): Promise<void> => {
  const { rowCount } = await pool.query({
    name: 'traffic-pause',
    text: `update work.traffic set leases_paused_until = clock_timestamp() + make_interval(secs => ${pauseSeconds})
            where plan_id = $1::text`,
    values: [planId],
  })
  if (rowCount === 0) return
  const deadlineMs = performance.now() + waitMs
  for (;;) {
    const { rows } = await pool.query<{ readonly held: boolean }>({
      name: 'traffic-held',
      text: `select exists (select from work.gateway_leases
                             where plan_id = $1::text and bytes > 0
                               and renewed_at > clock_timestamp() - make_interval(secs => ${leaseSeconds})) as held`,
      values: [planId],
    })
    if (!rows[0]?.held) return
    if (performance.now() >= deadlineMs)
      throw new CommandOverload(
        'a gateway that does not answer may still sell traffic of this plan; try again in a minute',
        leaseSeconds,
      )
    await sleep(everyMs)
  }
}
