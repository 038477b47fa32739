import type pg from 'pg'
import { thresholdPct } from '../../../market/plans/low.ts'
import type { Queued } from './step.ts'
import type { QueueRow } from './tables.ts'

type LowPlanFact = {
  readonly planId: string
  readonly productId: string
  readonly totalBytes: number
  readonly remainingBytes: number
  readonly expiresAt: string | null
}

const gb = (bytes: number): number => bytes / 1_000_000_000

/** The names of products, as the catalogue has them now. A product that left it keeps its id as its name. */
const productNames = async (
  db: Pick<pg.ClientBase, 'query'>,
  ids: readonly string[],
): Promise<ReadonlyMap<string, string>> => {
  const { rows: found } = await db.query<{ there: boolean }>(
    "select to_regclass('read.catalog') is not null as there",
  )
  if (!found[0]?.there) return new Map()
  const { rows } = await db.query<{ id: string; name: string }>(
    `select p->>'id' as id, p->>'name' as name from read.catalog, jsonb_array_elements(products) as p
      where p->>'id' = any ($1::text[])`,
    [ids],
  )
  return new Map(rows.map(({ id, name }) => [id, name]))
}

/**
 * The payload as it is sent. A low plan gets the account's own label for it, which stands in the vault and never in an
 * event; it is kept with the delivery from here on, so that every attempt tells the same.
 */
export const withPayload = async (
  db: Pick<pg.ClientBase, 'query'>,
  queued: readonly Queued[],
): Promise<readonly QueueRow[]> => {
  const low = queued.filter(({ data }) => data.event === 'plan.low_traffic')
  if (low.length === 0) return queued.map((each) => ({ queued: each, data: JSON.stringify(each.data.data) }))
  const facts = low.map(({ data }) => data.data as unknown as LowPlanFact)
  const names = await productNames(db, [...new Set(facts.map(({ productId }) => productId))])
  const { rows } = await db.query<{ resource_id: string; label: string }>(
    'select resource_id, label from vault.labels where resource_id = any ($1::text[])',
    [facts.map(({ planId }) => planId)],
  )
  const labels = new Map(rows.map(({ resource_id, label }) => [resource_id, label]))
  return queued.map((each) => {
    if (each.data.event !== 'plan.low_traffic') return { queued: each, data: JSON.stringify(each.data.data) }
    const fact = each.data.data as unknown as LowPlanFact
    const data = {
      planId: fact.planId,
      label: labels.get(fact.planId) ?? '',
      product: names.get(fact.productId) ?? fact.productId,
      dataGbTotal: gb(fact.totalBytes),
      dataGbRemaining: gb(fact.remainingBytes),
      thresholdPct,
      expiresAt: fact.expiresAt,
    }
    return { queued: each, data: JSON.stringify(data) }
  })
}
