import type pg from 'pg'
import type { CustomerIdOf } from '../../kernel/external-id.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { commitmentSql } from '../../platform/vault/seal.ts'
import { commitmentsTable } from '../invariants/delivery-invariants.ts'
import { type EventLocationRow, type Findings, toEventLocation } from './finding.ts'

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
  {
    what: 'webhook-value',
    table: 'vault.webhook_values',
    id: 'value_id',
    owner: 'endpoint_id',
    salted: 'v.sealed',
    holds: 'another URL, secret or endpoint',
  },
  {
    what: 'reseller-credentials',
    table: 'vault.reseller_credentials',
    id: 'reference',
    owner: 'reseller_id',
    salted: 'v.sealed',
    holds: 'other credentials, or another reseller,',
  },
]

const customersTable = 'vault.customers'

/** The tables that are held against the log. */
export const vaultTables: readonly string[] = [...sources.map(({ table }) => table), customersTable]

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
    const differing = await client.query<EventLocationRow & { committed_id: string }>(
      `select e.*, c.id as committed_id
         from ${committed} c join ${table} v on v.${id} collate "C" = c.id join ${schema}.event_places e using (position)
        where c.what = $1::text and c.digest is not null and ${digest} is distinct from c.digest
        order by e.ordinal limit ${limit}`,
      [what],
    )
    for (const row of differing.rows)
      findings.add({
        where: 'event',
        check: 'vault',
        event: toEventLocation(row),
        problem: `${table} holds ${holds} for ${row.committed_id} than this event commits to`,
      })
    const counted = await client.query<Omit<VaultSummary, 'table'>>(
      `select count(*) filter (where v.${id} is not null and c.digest is not null) as checked,
              count(*) filter (where v.${id} is not null and c.digest is null) as uncommitted,
              count(*) filter (where v.${id} is null and c.digest is not null) as erased
         from ${committed} c left join ${table} v on v.${id} collate "C" = c.id where c.what = $1::text`,
      [what],
    )
    summaries.push({ table, ...counted.rows[0]! })
  }
  return summaries
}

const pageRows = 5_000

/**
 * Holds the resellers' own ids of customers against the ids that events have: these are made of them by a secret, so that
 * a changed one no longer comes to the id of its row (src/features/accounts/customer-service.ts).
 */
export const checkCustomers = async (
  client: pg.ClientBase,
  idOf: CustomerIdOf,
  findings: Findings,
): Promise<VaultSummary> => {
  let [after, checked] = ['', 0]
  for (;;) {
    const { rows } = await client.query<{ customer_id: string; account_id: AccountId; ref: string }>(
      `select customer_id, account_id, ref from ${customersTable}
        where customer_id > $1::text and ref is not null order by customer_id limit ${pageRows}`,
      [after],
    )
    for (const { customer_id, account_id, ref } of rows)
      if (idOf(account_id, ref) !== customer_id)
        findings.add({
          where: 'log',
          check: 'vault',
          problem: `${customersTable} holds another reference, or another reseller, for ${customer_id} than the id was made of`,
        })
    checked += rows.length
    after = rows.at(-1)?.customer_id ?? after
    if (rows.length < pageRows) break
  }
  const { rows } = await client.query<{ erased: number }>(
    `select count(*) as erased from ${customersTable} where ref is null`,
  )
  return { table: customersTable, checked, uncommitted: 0, erased: rows[0]!.erased }
}
