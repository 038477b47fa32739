import type pg from 'pg'
import type { Family } from '../../domain/shared/order-terms.ts'
import type { MonotonicClock } from '../../kernel/clock.ts'
import type { AccountId, PlanId } from '../../kernel/ids.ts'
import { createCachedLookup } from './credential-cache.ts'

/** What a gateway needs to know of a plan. */
export type KnownPlan = {
  readonly planId: PlanId
  readonly accountId: AccountId
  readonly blocked: boolean
  /** Milliseconds; null: traffic does not expire. */
  readonly expiresAtMs: number | null
  readonly generation: number
  /** When that generation began; null for the first. */
  readonly rotatedAtMs: number | null
  /** What lines of the product may target, as its `generate.targeting` says. */
  readonly targeting: ReadonlySet<string>
  /** Of its product; null: any exit serves it. */
  readonly family: Family | null
  /** The speed of a plan that is sold by time; null: sold by traffic. */
  readonly bytesPerSecond: number | null
  /** Whether the hosts that its lines reach are counted by the day. */
  readonly countsHosts: boolean
}

export type PlanDirectory = {
  /**
   * The plan as of at most a second ago, or of half a minute while Postgres does not answer; null: no such plan.
   * @param sinceMs as of `CachedLookup`
   */
  find(planId: PlanId, sinceMs?: number): Promise<KnownPlan | null>
  /** Reads these again, with one query. */
  refresh(planIds: readonly PlanId[]): Promise<void>
}

const maxPlans = 50_000

const bitsPerMegabit = 1_000_000

/**
 * The speed that one unit of a product stands for, in bytes a second: `100 Mbps` or `1 Gbps`. 100 Mbps for a unit that
 * says none.
 */
export const unitSpeed = (unit: string): number => {
  const found = /^(\d{1,6}) ?(Mbps|Gbps)$/i.exec(unit)
  const megabits = found ? Number(found[1]) * (found[2]?.toLowerCase() === 'gbps' ? 1_000 : 1) : 100
  return (megabits * bitsPerMegabit) / 8
}

type Row = {
  readonly plan_id: PlanId
  readonly account_id: AccountId
  readonly shape: string
  readonly speed_units: number | null
  readonly expires_at: string | null
  readonly generation: number
  readonly rotated_at: string | null
  readonly blocked: boolean
  readonly targeting: readonly string[] | null
  readonly family: Family | null
  readonly unit: string | null
  readonly counts_hosts: boolean
}

const timeOf = (iso: string | null): number | null => (iso === null ? null : Date.parse(iso))

const knownPlan = (row: Row): KnownPlan => ({
  planId: row.plan_id,
  accountId: row.account_id,
  blocked: row.blocked,
  expiresAtMs: timeOf(row.expires_at),
  generation: row.generation,
  rotatedAtMs: timeOf(row.rotated_at),
  targeting: new Set(row.targeting ?? []),
  family: row.family,
  bytesPerSecond:
    row.shape === 'gateway_time' ? Math.max(1, row.speed_units ?? 1) * unitSpeed(row.unit ?? '') : null,
  countsHosts: row.counts_hosts,
})

const readPlans = async (pool: pg.Pool, planIds: readonly PlanId[]): Promise<readonly KnownPlan[]> => {
  const { rows } = await pool.query<Row>({
    name: 'gateway-plans',
    text: `with product as (
             select product->>'id' as product_id, product->>'unit' as unit, product->>'family' as family, product->'generate'->'targeting' as targeting
               from read.catalog, jsonb_array_elements(products) product)
           select plan.plan_id, plan.account_id, plan.shape, plan.speed_units, plan.expires_at, plan.generation,
                  plan.rotated_at, account.blocked, product.unit, product.family, product.targeting,
                  not exists (select from work.plans_without_hosts without where without.plan_id = plan.plan_id) as counts_hosts
             from read.plans plan
             join read.accounts account on account.account_id = plan.account_id
             left join product on product.product_id = plan.product_id
            where plan.plan_id = any ($1::text[])`,
    values: [planIds],
  })
  return rows.map(knownPlan)
}

export const createPlanDirectory = (deps: {
  readonly pool: pg.Pool
  readonly monotonicMs: MonotonicClock
  /** Told of each plan that was read again. */
  readonly onRead?: (plan: KnownPlan) => void
}): PlanDirectory => {
  const { pool, monotonicMs, onRead } = deps
  const plans = createCachedLookup<PlanId, KnownPlan>({
    read: async (planId) => {
      const [plan] = await readPlans(pool, [planId])
      if (plan) onRead?.(plan)
      return plan ?? null
    },
    max: maxPlans,
    monotonicMs,
  })
  return {
    find: plans.find,
    refresh: async (planIds) => {
      if (planIds.length === 0) return
      const askedMs = monotonicMs()
      for (const plan of await readPlans(pool, planIds)) {
        plans.store(plan.planId, plan, askedMs)
        onRead?.(plan)
      }
    },
  }
}
