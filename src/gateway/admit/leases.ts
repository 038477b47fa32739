import { LRUCache } from 'lru-cache'
import type pg from 'pg'
import type { MonotonicClock } from '../../kernel/clock.ts'
import type { PlanId } from '../../kernel/ids.ts'
import type { KnownPlan, PlanDirectory } from '../authenticate/plan-directory.ts'

/** What a process asks for of one plan; bytes. */
export type LeaseRequest = {
  readonly planId: PlanId
  /**
   * Leased before, and neither sold nor given back: the lease goes on over these. Of a plan that is sold by time 1 while
   * this process passes traffic of it, else 0.
   */
  readonly held: number
  /** More; -1 ends the lease, with nothing held. */
  readonly wanted: number
}

export type LeaseAnswer = {
  /** At most what was wanted. */
  readonly granted: number
  /** Left of the plan before this grant, for anybody; null for a plan that is sold by time. */
  readonly free: number | null
  /** Leased to other processes and perhaps not sold yet. Of a plan that is sold by time: how many others pass traffic of it. */
  readonly elsewhere: number
  /** Leases are to be given back: a refund is about to be decided. */
  readonly paused: boolean
}

/** A process stops selling what it leased this long before, milliseconds; it renews twice a second. */
export const leaseValidMs = 30_000

/**
 * After this long others may sell what a process leased: it stopped selling at half of that, whatever its clock shows.
 * What it had sold and not reported is the customer's.
 */
const expireSeconds = 60

/** The smallest slab, unless less is left. */
const smallestSlab = 64 * 1024

/** At most this part of what is left goes to one process at once: slabs shrink as a plan runs low. */
const share = 8

const maxPlans = 50_000

type LeaseRow = LeaseAnswer & {
  readonly plan_id: PlanId
  /** Of the plan, and what was used of it, as the row and the counter say that the lease was taken out of. */
  readonly total: number | null
  readonly used: number
}

/** Leases of this process. Whole numbers; one round trip and one commit for any number of plans. */
export const createLeases = (deps: {
  readonly pool: pg.Pool
  readonly worker: string
  /** As the log has it (plan-directory.ts). */
  readonly findPlan: PlanDirectory['find']
  readonly monotonicMs: MonotonicClock
}) => {
  const { pool, worker, findPlan, monotonicMs } = deps

  const lastSeen = new LRUCache<PlanId, KnownPlan>({ max: maxPlans })

  const planOf = async (planId: PlanId, total: number): Promise<KnownPlan | null> => {
    try {
      const known = await findPlan(planId)
      // A top-up may have landed since it was read.
      const plan = (known?.totalBytes ?? 0) < total ? await findPlan(planId, monotonicMs()) : known
      if (plan) lastSeen.set(planId, plan)
      return plan
    } catch (error) {
      // A log that is away for long changes nothing: tunnels that are open go on.
      const plan = lastSeen.get(planId)
      if (plan) return plan
      throw error
    }
  }

  /** Of what was granted, what the log has of the plan: SQL can change a row and a counter. */
  const confirmed = async ({ plan_id, total, used, ...answer }: LeaseRow): Promise<LeaseAnswer> => {
    if (total === null || answer.free === null) return answer
    const plan = await planOf(plan_id, total)
    const beyond = Math.max(0, total - (plan?.totalBytes ?? 0)) + Math.max(0, (plan?.usedBytes ?? 0) - used)
    const free = Math.max(0, answer.free - beyond)
    return { ...answer, free, granted: Math.min(answer.granted, free) }
  }

  return {
    /** Plans that no counter was begun for, or whose row is not read yet, are missing in the answer. */
    renew: async (requests: readonly LeaseRequest[]): Promise<ReadonlyMap<PlanId, LeaseAnswer>> => {
      const { rows } = await pool.query<LeaseRow>({
        name: 'gateway-lease',
        text: `select plan_id, granted, free, elsewhere, paused, total, used
                 from work.lease_traffic($1::text, $2::text[], $3::bigint[], $4::bigint[], $5::bigint, $6::int, $7::int)`,
        values: [
          worker,
          requests.map(({ planId }) => planId),
          requests.map(({ held }) => held),
          requests.map(({ wanted }) => wanted),
          smallestSlab,
          share,
          expireSeconds,
        ],
      })
      const selling = new Set(requests.flatMap(({ planId, wanted }) => (wanted > 0 ? [planId] : [])))
      return new Map(
        await Promise.all(
          rows.map(async (row) => {
            const answer = selling.has(row.plan_id) ? await confirmed(row) : row
            return [row.plan_id, answer] as const
          }),
        ),
      )
    },
  }
}

/** Ends the leases of a process that is known to be gone. */
export const endLeasesOf = async (pool: pg.Pool, worker: string): Promise<void> => {
  await pool.query('delete from work.gateway_leases where worker = $1::text', [worker])
}

export type Leases = ReturnType<typeof createLeases>
