import type pg from 'pg'
import type { PlanId } from '../../kernel/ids.ts'

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

/** Leases of this process. Whole numbers; one round trip and one commit for any number of plans. */
export const createLeases = (pool: pg.Pool, worker: string) => ({
  /** Plans that no counter was begun for, or whose row is not read yet, are missing in the answer. */
  renew: async (requests: readonly LeaseRequest[]): Promise<ReadonlyMap<PlanId, LeaseAnswer>> => {
    const { rows } = await pool.query<LeaseAnswer & { readonly plan_id: PlanId }>({
      name: 'gateway-lease',
      text: `select plan_id, granted, free, elsewhere, paused
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
    return new Map(rows.map(({ plan_id: planId, ...answer }) => [planId, answer]))
  },
})

/** Ends the leases of a process that is known to be gone. */
export const endLeasesOf = async (pool: pg.Pool, worker: string): Promise<void> => {
  await pool.query('delete from work.gateway_leases where worker = $1::text', [worker])
}

export type Leases = ReturnType<typeof createLeases>
