import type pg from 'pg'
import type { ExitState, ExitTerms, ExitVia } from './events.ts'

/** An exit as it is listed, with what is known of its health; null: nothing was found wrong yet. */
export type ListedExit = {
  readonly exitId: string
  readonly state: ExitState
  readonly terms: ExitTerms
  readonly alive: boolean
  /** Why it counts as dead, or what was last wrong. */
  readonly problem: string | null
  /** Since when it is alive or dead; null: it was never otherwise. */
  readonly since: string | null
}

type Row = {
  readonly exit_id: string
  readonly state: ExitState
  readonly terms: ExitTerms
  readonly alive: boolean | null
  readonly problem: string | null
  readonly changed_at: string | null
}

/** Up to `limit` exits that were not removed, in the order of their ids, that come after one; null: from the first on. */
export const exitsAfter = async (
  pool: pg.Pool,
  { after, limit }: { readonly after: string | null; readonly limit: number },
): Promise<readonly ListedExit[]> => {
  const { rows } = await pool.query<Row>({
    name: 'exits-after',
    text: `select listed.exit_id, listed.state, listed.terms, health.alive, health.problem, health.changed_at
             from read.exits listed left join work.exit_health health using (exit_id)
            where listed.state <> 'removed' and listed.exit_id > $1::text
            order by listed.exit_id limit $2::int`,
    values: [after ?? '', limit],
  })
  return rows.map((row) => ({
    exitId: row.exit_id,
    state: row.state,
    terms: row.terms,
    alive: row.alive ?? true,
    problem: row.problem,
    since: row.changed_at,
  }))
}

/** Where an exit goes out, without what signs in. */
export const endpointOf = (via: ExitVia): string => {
  switch (via.kind) {
    case 'direct':
      return via.localAddress ?? 'this machine'
    case 'prefix':
      return via.prefix
    default:
      return `${via.host}:${via.port}`
  }
}
