import type pg from 'pg'
import { commitmentSql } from '../../../platform/vault/commitment.ts'
import { commitmentsTable } from '../invariants/commitments.ts'
import type { Findings } from './finding.ts'
import { type PlaceRow, toPlace } from './places.ts'

/** A table of the vault whose rows events commit to. */
type Source = {
  /** As the commitments call it. */
  readonly what: string
  readonly table: `vault.${string}`
  readonly id: string
  readonly owner: string
  /** The salted bytes of a row `v`, as SQL. */
  readonly salted: string
  /** What may have been exchanged, in words. */
  readonly holds: string
}

const sources: readonly Source[] = [
  {
    what: 'api-key',
    table: 'vault.api_keys',
    id: 'key_id',
    owner: 'account_id',
    salted: 'v.salt || v.hash',
    holds: 'another hash, account or salt',
  },
]

/** The tables that are held against the log. */
export const vaultTables: readonly string[] = sources.map(({ table }) => table)

/** The rows of one table of the vault that events of the log name. */
export type VaultSummary = {
  readonly table: string
  /** Held against what their events commit to. */
  readonly checked: number
  /** Outside: their events, of an older release, commit to nothing. */
  readonly uncommitted: number
  /** Committed to, and gone: erased, or never brought here. */
  readonly erased: number
}

const limit = 100

/** Holds what the vault has against what events commit to. @param client sees the tables of the rules, written whole */
export const checkVault = async (
  client: pg.ClientBase,
  schema: string,
  findings: Findings,
): Promise<readonly VaultSummary[]> => {
  const committed = `${schema}.${commitmentsTable.name}`
  const summaries: VaultSummary[] = []
  for (const { what, table, id, owner, salted, holds } of sources) {
    const digest = commitmentSql({
      what: 'c.what',
      id: `v.${id}`,
      owner: `v.${owner}`,
      salted: `(${salted})`,
    })
    const differing = await client.query<PlaceRow & { committed_id: string }>(
      `select e.*, c.id as committed_id
         from ${committed} c join ${table} v on v.${id} = c.id join ${schema}.event_places e using (position)
        where c.what = $1::text and c.digest is not null and ${digest} is distinct from c.digest
        order by e.ordinal limit ${limit}`,
      [what],
    )
    for (const row of differing.rows)
      findings.add({
        where: 'event',
        check: 'vault',
        event: toPlace(row),
        problem: `${table} holds ${holds} for ${row.committed_id} than this event commits to`,
      })
    const counted = await client.query<Omit<VaultSummary, 'table'>>(
      `select count(*) filter (where v.${id} is not null and c.digest is not null) as checked,
              count(*) filter (where v.${id} is not null and c.digest is null) as uncommitted,
              count(*) filter (where v.${id} is null and c.digest is not null) as erased
         from ${committed} c left join ${table} v on v.${id} = c.id where c.what = $1::text`,
      [what],
    )
    summaries.push({ table, ...counted.rows[0]! })
  }
  return summaries
}
