import type pg from 'pg'

/** Stores the used bytes of a budget in a period, as the gateways count them. */
export const storeUse = async (
  pool: pg.Pool,
  use: {
    readonly budgetId: string
    readonly countedFromMs: number
    readonly usedBytes: number
    readonly limitBytes: number
  },
): Promise<void> => {
  await pool.query(
    `insert into work.traffic_budget_use as known (budget_id, counted_from, used_bytes, limit_bytes)
     values ($1, $2, $3, $4)
     on conflict (budget_id, counted_from) do update
       set used_bytes = excluded.used_bytes, limit_bytes = excluded.limit_bytes,
           reached_percent = case when known.limit_bytes = excluded.limit_bytes then known.reached_percent else 0 end`,
    [use.budgetId, new Date(use.countedFromMs), use.usedBytes, use.limitBytes],
  )
}
