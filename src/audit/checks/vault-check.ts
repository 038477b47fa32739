import type pg from 'pg'
import type { StoredPages } from '../../../projections/deposits.ts'
import { createChatSigner, type SignedChat } from '../../features/accounts/index.ts'
import { createPageSigner } from '../../features/deposits/index.ts'
import { createExitLogins } from '../../features/exits/index.ts'
import { createIsAllowed, type EntryRow, entryColumns } from '../../features/lines/index.ts'
import { createAddressSigner, createLinkSigner, createSessionSigner } from '../../features/sign-in/index.ts'
import { createStockLogins } from '../../features/stock/index.ts'
import type { CustomerIdOf } from '../../kernel/external-id.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { financeStream } from '../../kernel/streams.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { type Keys, readWrongKeys } from '../../platform/vault/keys.ts'
import { commitmentSql, createVault } from '../../platform/vault/seal.ts'
import { allowedEntry, commitmentsTable, removedEntry } from '../invariants/delivery-invariants.ts'
import { addEventFindings, type EventLocationRow, type Findings } from './finding.ts'

/** A table of the vault whose rows have commitments in events. */
type Source = {
  /** The subject name in the commitments. */
  readonly what: string
  readonly table: `vault.${string}`
  readonly id: string
  /** The owner of a row `v`, as SQL. */
  readonly owner: string
  /** The salted bytes of a row `v`, as SQL. */
  readonly salted: string
  /** Further facts of a row `v` that the event contains, as SQL; omitted: none. */
  readonly detail?: string
  /** The values that may have been exchanged, in words. */
  readonly alternatives: string
}

const saltedSql = (value: string): string => `v.salt || ${value}`
const textBytes = (column: string): string => `convert_to(v.${column}, 'UTF8')`

const sources: readonly Source[] = [
  {
    what: 'api-key',
    table: 'vault.api_keys',
    id: 'key_id',
    owner: 'v.account_id',
    salted: saltedSql('v.hash'),
    alternatives: 'another hash, account or salt',
  },
  {
    what: 'webhook-value',
    table: 'vault.webhook_values',
    id: 'value_id',
    owner: 'v.endpoint_id',
    salted: 'v.sealed',
    alternatives: 'another URL, secret or endpoint',
  },
  {
    what: 'reseller-credentials',
    table: 'vault.reseller_credentials',
    id: 'reference',
    owner: 'v.reseller_id',
    salted: 'v.sealed',
    detail: `v.purpose || ' ' || v.provider`,
    alternatives: 'other credentials, or another reseller, purpose or provider,',
  },
  {
    what: 'account-email',
    table: 'vault.accounts',
    id: 'account_id',
    owner: 'v.account_id',
    salted: saltedSql(textBytes('email')),
    alternatives: 'another e-mail or salt',
  },
  {
    what: 'staff-email',
    table: 'vault.staff',
    id: 'staff_id',
    owner: 'v.staff_id',
    salted: saltedSql(textBytes('email')),
    alternatives: 'another e-mail or salt',
  },
  {
    what: 'passkey',
    table: 'vault.console_passkeys',
    id: 'passkey_id',
    owner: 'v.subject_id',
    salted: saltedSql(`${textBytes('credential_id')} || '\\x0a'::bytea || v.public_key`),
    alternatives: 'another public key, credential, person or salt',
  },
  {
    what: 'finance-token',
    table: 'vault.finance_tokens',
    id: 'token_id',
    owner: `'${financeStream}'`,
    salted: saltedSql('v.hash'),
    alternatives: 'another hash or salt',
  },
]

const customersTable = 'vault.customers'

const sessionsTable = 'vault.console_sessions'
const linksTable = 'vault.console_links'
const addressTable = 'work.console_address'
const pagesTable = 'vault.deposit_pages'
const whitelistTable = 'vault.whitelist'
const exitLoginsTable = 'vault.exit_credentials'
const stockLoginsTable = 'vault.stock_credentials'
const fingerprintsTable = 'vault.key_fingerprint'

/** The tables that are compared with the log or whose rows are signed. */
export const vaultTables: readonly string[] = [
  ...sources.map(({ table }) => table),
  customersTable,
  sessionsTable,
  linksTable,
  addressTable,
  pagesTable,
  whitelistTable,
  exitLoginsTable,
  stockLoginsTable,
  fingerprintsTable,
]

/** Counts of the rows of one vault table that events name. */
export type VaultSummary = {
  readonly table: string
  /** Rows compared with the commitments of their events. */
  readonly checked: number
  /** Those of them that an upgrade adopted. Nothing proves their values from before the upgrade. */
  readonly adopted: number
  /**
   * Rows that are not counted as checked: their events, from an older release, have no commitment. They grant no
   * access.
   */
  readonly uncommitted: number
  /** Rows with a commitment that are missing: erased, or never restored here. */
  readonly erased: number
}

/** A check of one table, which runs even if the table of another check is missing. */
export type VaultCheck = { readonly table: string; readonly check: () => Promise<VaultSummary | null> }

/**
 * Compares the rows of a table with the commitments in events.
 * @param client sees the complete tables of the rules
 */
const checkSource = async (
  client: pg.ClientBase,
  schema: string,
  findings: Findings,
  { what, table, id, owner, salted, detail = 'null::text', alternatives }: Source,
): Promise<VaultSummary> => {
  const committed = `${schema}.${commitmentsTable.name}`
  const digest = commitmentSql({
    what: 'c.what',
    id: `v.${id}`,
    owner,
    salted: `(${salted})`,
  })
  await addEventFindings<EventLocationRow & { committed_id: string }>(
    client,
    findings,
    `select e.*, c.id as committed_id
       from ${committed} c join ${table} v on v.${id} collate "C" = c.id join ${schema}.event_places e using (position)
      where c.what = $1::text
        and (c.digest is not null and ${digest} is distinct from c.digest
          or c.detail is not null and ${detail} is distinct from c.detail)`,
    ({ committed_id }) => ({
      check: 'vault',
      problem: `${table} holds ${alternatives} for ${committed_id} than this event commits to`,
    }),
    [what],
  )
  const counted = await client.query<Omit<VaultSummary, 'table'>>(
    `select count(*) filter (where v.${id} is not null and c.committed) as checked,
            count(*) filter (where v.${id} is not null and c.adopted) as adopted,
            count(*) filter (where v.${id} is not null and not c.committed) as uncommitted,
            count(*) filter (where v.${id} is null and c.committed) as erased
       from (select id, bool_or(digest is not null) as committed, bool_or(adopted) as adopted
               from ${committed} where what = $1::text group by id) c
       left join ${table} v on v.${id} collate "C" = c.id`,
    [what],
  )
  return { table, ...counted.rows[0]! }
}

const pageRows = 5_000

/**
 * Compares the resellers' own ids of customers with the customer ids in events. A customer id is derived from the
 * reseller's id with a secret, so a changed id no longer matches its row (src/features/accounts/customers.ts).
 */
const checkCustomers = async (
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
        findings.addForLog(
          'vault',
          `${customersTable} holds another reference, or another reseller, for ${customer_id} than the id was made of`,
        )
    checked += rows.length
    after = rows.at(-1)?.customer_id ?? after
    if (rows.length < pageRows) break
  }
  const { rows } = await client.query<{ erased: number }>(
    `select count(*) as erased from ${customersTable} where ref is null`,
  )
  return { table: customersTable, checked, adopted: 0, uncommitted: 0, erased: rows[0]!.erased }
}

/**
 * Checks the signature of each row. A row without a signature is from an older release or was inserted by a third
 * party; it grants no access in either case.
 * @param from the rows as SQL, with the columns `named` (unique text) and `signature`
 */
const checkSignedRows = async <Row extends { readonly named: string; readonly signature: Buffer | null }>(
  client: pg.ClientBase,
  findings: Findings,
  {
    table,
    from,
    isSigned,
    problemOf,
  }: {
    readonly table: string
    readonly from: string
    readonly isSigned: (row: Row) => boolean
    readonly problemOf: (row: Row) => string
  },
): Promise<VaultSummary> => {
  let [after, checked, uncommitted] = ['', 0, 0]
  for (;;) {
    const { rows } = await client.query<Row>(
      `select * from (${from}) r where named > $1::text order by named limit ${pageRows}`,
      [after],
    )
    for (const row of rows) {
      if (row.signature === null) uncommitted += 1
      else checked += 1
      if (row.signature !== null && !isSigned(row)) findings.addForLog('vault', problemOf(row))
    }
    after = rows.at(-1)?.named ?? after
    if (rows.length < pageRows) return { table, checked, adopted: 0, uncommitted, erased: 0 }
  }
}

type SignedRow = { readonly named: string; readonly signature: Buffer | null }

/** Checks sessions and sign-in links, which are valid for hours, and the origin that the links point to. */
const consoleChecks = (
  client: pg.ClientBase,
  keys: Pick<Keys, 'master'>,
  findings: Findings,
): readonly VaultCheck[] => {
  const signers = [
    { table: sessionsTable, id: 'session_id', ...createSessionSigner(keys) },
    { table: linksTable, id: `encode(hash, 'hex')`, ...createLinkSigner(keys) },
  ]
  return [
    ...signers.map(({ table, id, isSigned }) => ({
      table,
      check: () =>
        checkSignedRows(client, findings, {
          table,
          from: `select *, ${id} as named from ${table}`,
          isSigned: (row) => isSigned(row as never),
          problemOf: (row: { named: string; subject_id: string; signature: Buffer | null }) =>
            `${table} holds ${row.named} of ${row.subject_id}, which the service has not written so`,
        }),
    })),
    {
      table: addressTable,
      check: () =>
        checkSignedRows<SignedRow>(client, findings, {
          table: addressTable,
          from: `select origin as named, signature from ${addressTable}`,
          isSigned: ({ named, signature }) =>
            createAddressSigner(keys).isSigned({ origin: named, signature }),
          problemOf: ({ named }) => `${addressTable} holds ${named}, which the service has not written so`,
        }),
    },
  ]
}

/** Checks the page addresses of deposits. Their signatures also cover the payer, which is read from the log. */
const checkDepositPages = (
  client: pg.ClientBase,
  schema: string,
  keys: Pick<Keys, 'master'>,
  findings: Findings,
): Promise<VaultSummary> =>
  checkSignedRows<StoredPages & { readonly named: string; readonly signature: Buffer | null }>(
    client,
    findings,
    {
      table: pagesTable,
      from: `select p.deposit_id as "depositId", p.deposit_id as named, c.owner as "accountId", c.detail as "customerId",
                  p.return_url as "returnUrl", p.pay_url as "payUrl", p.signature, p.signature as "pagesSignature"
             from ${pagesTable} p join ${schema}.${commitmentsTable.name} c on c.id = p.deposit_id and c.what = 'deposit-pages'`,
      isSigned: createPageSigner(keys).isSigned,
      problemOf: ({ named }) =>
        `${pagesTable} holds another pay page, return address or payer for ${named} than the service has written`,
    },
  )

/**
 * Checks the addresses that use plans without credentials: the account's stream must allow each row. Rows that fail are
 * read again, because they may have been changed or removed meanwhile. A row without a salt is from an older release
 * and grants no access.
 */
const checkWhitelist = async (
  client: pg.ClientBase,
  schema: string,
  log: Pick<EventLog, 'readStreams'>,
  findings: Findings,
): Promise<VaultSummary> => {
  const isAllowed = createIsAllowed(log)
  const refusedOf = async (rows: readonly EntryRow[]): Promise<readonly EntryRow[]> => {
    const allowed = await Promise.all(rows.map(isAllowed))
    return rows.filter((_, at) => !allowed[at])
  }
  let [after, checked, uncommitted] = ['', 0, 0]
  for (;;) {
    const { rows } = await client.query<EntryRow>(
      `select ${entryColumns} from ${whitelistTable} where entry_id > $1::text order by entry_id limit ${pageRows}`,
      [after],
    )
    const saltedRows = rows.filter(({ salt }) => salt !== null)
    const firstRefused = await refusedOf(saltedRows)
    const reread = await client.query<EntryRow>(
      `select ${entryColumns} from ${whitelistTable} where entry_id = any ($1::text[]) and salt is not null order by entry_id`,
      [firstRefused.map(({ entry_id }) => entry_id)],
    )
    const stillRefused = await refusedOf(reread.rows)
    for (const { entry_id, plan_id, account_id } of stillRefused)
      findings.addForLog(
        'vault',
        `${whitelistTable} holds ${entry_id}, by which an address uses ${plan_id}: the events of ${account_id} do not allow it so, or no longer`,
      )
    checked += saltedRows.length - firstRefused.length + reread.rows.length - stillRefused.length
    uncommitted += rows.length - saltedRows.length
    after = rows.at(-1)?.entry_id ?? after
    if (rows.length < pageRows) break
  }
  const { rows } = await client.query<{ allowed: number; adopted: number }>(
    `select count(*) as allowed, count(*) filter (where c.adopted) as adopted
       from ${schema}.${commitmentsTable.name} c
      where c.what = $1::text
        and not exists (select from ${schema}.${commitmentsTable.name} r where r.what = $2::text and r.id = c.id)`,
    [allowedEntry, removedEntry],
  )
  const { allowed, adopted } = rows[0]!
  return { table: whitelistTable, checked, adopted, uncommitted, erased: Math.max(0, allowed - checked) }
}

/** Checks the chats that bots write to. */
const checkChats = (
  client: pg.ClientBase,
  keys: Pick<Keys, 'master'>,
  findings: Findings,
): Promise<VaultSummary> =>
  checkSignedRows<SignedChat & SignedRow>(client, findings, {
    table: `${customersTable} (chats)`,
    from: `select customer_id as named, customer_id as "customerId", account_id as "accountId", chat_id as "chatId",
                  chat_signature as signature
             from ${customersTable} where chat_id is not null`,
    isSigned: createChatSigner(keys.master).isSigned,
    problemOf: ({ named }) =>
      `${customersTable} holds another chat or reseller for ${named} than the service has written`,
  })

/** Checks the supplier logins. A row decrypts only under its own id, which events name. */
const loginChecks = (
  pool: pg.Pool,
  client: pg.ClientBase,
  keys: Pick<Keys, 'master'>,
  findings: Findings,
): readonly VaultCheck[] => {
  const { master } = keys
  const sealers = [
    { table: exitLoginsTable, ...createExitLogins({ pool, vault: createVault(master) }) },
    { table: stockLoginsTable, ...createStockLogins({ pool, master }) },
  ]
  return sealers.map(({ table, isSealed }) => ({
    table,
    check: () =>
      checkSignedRows<SignedRow>(client, findings, {
        table,
        // The tag of the cipher serves as the signature.
        from: `select credential_id as named, sealed as signature from ${table}`,
        isSigned: ({ named, signature }) => signature !== null && isSealed(named, signature),
        problemOf: ({ named }) => `${table} holds another login for ${named} than the service has written`,
      }),
  }))
}

/** The master key signs and encrypts. Its fingerprint in the database says which key that is. */
const checkFingerprint = async (
  client: pg.ClientBase,
  keys: Pick<Keys, 'master'>,
  findings: Findings,
): Promise<null> => {
  for (const name of await readWrongKeys(client, keys))
    findings.addForLog(
      'vault',
      `${fingerprintsTable} holds another fingerprint than that of the ${name} key of the settings`,
    )
  return null
}

/** The checks of the vault, one a table. Run them when the tables of the rules are complete. */
export const vaultChecks = ({
  pool,
  client,
  schema,
  log,
  findings,
  customerIdOf,
  keys,
}: {
  readonly pool: pg.Pool
  readonly client: pg.ClientBase
  readonly schema: string
  readonly log: Pick<EventLog, 'readStreams'>
  readonly findings: Findings
  readonly customerIdOf?: CustomerIdOf
  readonly keys?: Pick<Keys, 'master'>
}): readonly VaultCheck[] => [
  ...sources.map((source) => ({
    table: source.table,
    check: () => checkSource(client, schema, findings, source),
  })),
  ...(customerIdOf === undefined
    ? []
    : [{ table: customersTable, check: () => checkCustomers(client, customerIdOf, findings) }]),
  { table: whitelistTable, check: () => checkWhitelist(client, schema, log, findings) },
  ...(keys === undefined
    ? []
    : [
        { table: fingerprintsTable, check: () => checkFingerprint(client, keys, findings) },
        ...consoleChecks(client, keys, findings),
        { table: pagesTable, check: () => checkDepositPages(client, schema, keys, findings) },
        { table: `${customersTable} (chats)`, check: () => checkChats(client, keys, findings) },
        ...loginChecks(pool, client, keys, findings),
      ]),
]
