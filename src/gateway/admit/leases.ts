import { LRUCache } from 'lru-cache'
import type pg from 'pg'
import type { MonotonicClock } from '../../kernel/clock.ts'
import type { PlanId } from '../../kernel/ids.ts'
import type { KnownPlan, PlanDirectory } from '../authenticate/plan-directory.ts'

/** The lease that a process requests for one plan; bytes. */
export type LeaseRequest = {
  readonly planId: PlanId
  /**
   * Leased earlier, and neither consumed nor given back. The lease still covers these bytes. For a time-based plan: 1
   * while this process passes its traffic, else 0.
   */
  readonly held: number
  /** Additional bytes; -1 ends the lease, with `held` 0. */
  readonly wanted: number
}

export type LeaseAnswer = {
  /** At most `wanted`. */
  readonly granted: number
  /** Bytes of the plan that no process had leased before this grant; null for a time-based plan. */
  readonly free: number | null
  /** Bytes leased to other processes. For a time-based plan: the number of other processes that pass its traffic. */
  readonly elsewhere: number
  /** Leases must be given back, because a refund is about to be decided. */
  readonly paused: boolean
}

/** A process consumes a lease up to this long after it was requested, milliseconds. It renews twice a second. */
export const leaseValidMs = 30_000

/**
 * After this long, seconds, other processes may lease the bytes of a process that does not renew. That process stopped
 * at half of this time, by its monotonic clock. Bytes that it consumed and did not report are unbilled.
 */
const expireSeconds = 60

/** The smallest slab, unless less is left, bytes. */
const smallestSlab = 64 * 1024

/** One process gets at most this fraction (1/8) of the remaining bytes at once, so slabs shrink as a plan runs low. */
const share = 8

const maxPlans = 50_000

type LeaseRow = LeaseAnswer & {
  readonly plan_id: PlanId
  /** Total and used bytes of the plan, from the row and the counter that the lease was calculated with. */
  readonly total: number | null
  readonly used: number
}

/** Leases of this process, in whole bytes. Any number of plans needs one round trip and one commit. */
export const createLeases = (deps: {
  readonly pool: pg.Pool
  readonly worker: string
  /** Reads the plan from the log (plan-directory.ts). */
  readonly findPlan: PlanDirectory['find']
  readonly monotonicMs: MonotonicClock
}) => {
  const { pool, worker, findPlan, monotonicMs } = deps

  const lastSeen = new LRUCache<PlanId, KnownPlan>({ max: maxPlans })

  const planOf = async (planId: PlanId, total: number): Promise<KnownPlan | null> => {
    try {
      const known = await findPlan(planId)
      // A top-up may have been appended since the plan was read.
      const plan = (known?.totalBytes ?? 0) < total ? await findPlan(planId, monotonicMs()) : known
      if (plan) lastSeen.set(planId, plan)
      return plan
    } catch (error) {
      // While the log is unavailable, open tunnels continue with the plan as last read.
      const plan = lastSeen.get(planId)
      if (plan) return plan
      throw error
    }
  }

  /** Limits a grant to the bytes that the plan has left by the log, because SQL can change a row and a counter. */
  const confirmGrant = async ({ plan_id, total, used, ...answer }: LeaseRow): Promise<LeaseAnswer> => {
    if (total === null || answer.free === null) return answer
    const plan = await planOf(plan_id, total)
    const overstatedBytes =
      Math.max(0, total - (plan?.totalBytes ?? 0)) + Math.max(0, (plan?.usedBytes ?? 0) - used)
    const free = Math.max(0, answer.free - overstatedBytes)
    return { ...answer, free, granted: Math.min(answer.granted, free) }
  }

  return {
    /** The answer omits plans without a counter, and plans whose row is not read yet. */
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
      const plansToGrant = new Set(requests.flatMap(({ planId, wanted }) => (wanted > 0 ? [planId] : [])))
      return new Map(
        await Promise.all(
          rows.map(async (row) => {
            const answer = plansToGrant.has(row.plan_id) ? await confirmGrant(row) : row
            return [row.plan_id, answer] as const
          }),
        ),
      )
    },
  }
}

/** Ends the leases of a process that has ended. */
export const endLeasesOf = async (pool: pg.Pool, worker: string): Promise<void> => {
  await pool.query('delete from work.gateway_leases where worker = $1::text', [worker])
}

export type Leases = ReturnType<typeof createLeases>
