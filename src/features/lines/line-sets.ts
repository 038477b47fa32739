import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type pg from 'pg'
import type { Targeting } from '../../domain/exits/line.ts'
import type { PlanId } from '../../kernel/ids.ts'

/** The most stored targetings of a plan. */
export const maxSets = 10_000
const maxCachedSets = 20_000

const alphabet = 'abcdefghijklmnopqrstuvwxyz0123456789'

/** Equal names and targetings of a plan have the same id; `attempt` selects another id after a collision. */
const setIdOf = (name: string | null, targeting: string, attempt: number): string => {
  const text = name === null ? `${attempt} ${targeting}` : `${attempt} ${name} ${targeting}`
  let remainder = createHash('sha256').update(text).digest().readUIntBE(0, 6)
  let id = ''
  for (let n = 0; n < 8; n += 1) {
    id += alphabet[remainder % 36]
    remainder = Math.floor(remainder / 36)
  }
  return id
}

/** Set ids depend on this order of keys. */
const keyOrder = [
  'country',
  'state',
  'city',
  'isp',
  'asn',
  'os',
  'strict',
  'udp',
  'not',
  'countries',
  'states',
  'cities',
  'asns',
]
const textOf = (targeting: Targeting): string => JSON.stringify(targeting, keyOrder)

export type LineSets = {
  /**
   * The id of this targeting for the plan's lines; null when the plan has `maxSets` other ones.
   * @param name another name has another id; null: no name
   */
  store(planId: PlanId, targeting: Targeting, name?: string | null): Promise<string | null>
  /** The targeting of a line's `-set-`; null when this plan has no such set. A set never changes, so it is cached. */
  targetingOf(planId: PlanId, setId: string): Promise<Targeting | null>
}

/** Named targeting and targeting that does not fit into a username, shared by all processes of the database. */
export const createLineSets = ({ pool }: { readonly pool: pg.Pool }): LineSets => {
  const setCache = new LRUCache<string, Targeting>({ max: maxCachedSets })

  const read = async (planId: PlanId, setId: string) => {
    const { rows } = await pool.query<{ targeting: Targeting; name: string | null }>({
      name: 'line-set',
      text: 'select targeting, name from vault.line_sets where plan_id = $1::text and set_id = $2::text',
      values: [planId, setId],
    })
    return rows[0] ?? null
  }

  return {
    store: async (planId, targeting, name = null) => {
      const text = textOf(targeting)
      for (let attempt = 0; attempt < 10; attempt += 1) {
        const setId = setIdOf(name, text, attempt)
        await pool.query(
          `insert into vault.line_sets (plan_id, set_id, targeting, name)
           select $1::text, $2::text, $3::jsonb, $5::text
            where (select count(*) from vault.line_sets where plan_id = $1::text) < $4::int
           on conflict do nothing`,
          [planId, setId, text, maxSets, name],
        )
        const stored = await read(planId, setId)
        if (stored === null) return null
        if (textOf(stored.targeting) === text && stored.name === name) return setId
      }
      throw new Error('ten set ids in a row collide with other targetings')
    },
    targetingOf: async (planId, setId) => {
      const key = `${planId} ${setId}`
      const cachedTargeting = setCache.get(key)
      if (cachedTargeting) return cachedTargeting
      const stored = await read(planId, setId)
      if (stored === null) return null
      setCache.set(key, stored.targeting)
      return stored.targeting
    },
  }
}
