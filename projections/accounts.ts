import type { AccountEvent } from '../src/domain/accounts/events.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import type { AccountId } from '../src/kernel/ids.ts'
import type { CapCovers, KeyScope as Scope } from '../src/kernel/scopes.ts'
import { ownerOf } from '../src/kernel/streams.ts'
import type { Db } from '../src/platform/postgres/kysely.ts'
import {
  column,
  nullable,
  type RowKey,
  type RowOf,
  type Rows,
  readModel,
  readTable,
} from '../src/platform/projections/read-model.ts'

/** One row per account. Its e-mail address is in the vault. */
const accountsTable = readTable({
  name: 'accounts',
  columns: {
    accountId: column.text(),
    position: column.bigint(),
    reseller: column.boolean(),
    blocked: column.boolean(),
    blockedReason: nullable(column.text()),
    /** A fall of the available balance below it is notified; null: no fall is. */
    lowBalanceMicros: nullable(column.bigint()),
    createdAt: column.timestamptz(),
  },
  key: ['accountId'],
})

export type AccountRow = RowOf<typeof accountsTable>

/** One row per API key. Its hash is in the vault. */
const keysTable = readTable({
  name: 'keys',
  columns: {
    keyId: column.text(),
    accountId: column.text(),
    position: column.bigint(),
    scopes: column.textArray<Scope>(),
    /** The limit in whole cents within any 24 hours; null: no limit. */
    dailyCapCents: nullable(column.bigint()),
    /** What the limit covers. */
    capCovers: column.text<CapCovers>(),
    revoked: column.boolean(),
    displayPrefix: column.text(),
    name: nullable(column.text()),
    expiresAt: nullable(column.timestamptz()),
    /** The networks in which it is valid; null: all networks. */
    networks: nullable(column.textArray()),
    /** The key whose daily limit its spending counts against. */
    capKeyId: column.text(),
    createdAt: column.timestamptz(),
  },
  key: ['keyId'],
  indexes: ['account_id, position desc'],
})

export type KeyRow = RowOf<typeof keysTable>

const accountEvents: ReadonlySet<string> = new Set<AccountEvent['type']>([
  'AccountCreated',
  'AccountBlocked',
  'AccountUnblocked',
  'LowBalanceThresholdSet',
  'KeyIssued',
  'KeyCapped',
  'KeyExpirySet',
  'KeyRevoked',
])

const isAccount = (event: RecordedEvent): event is RecordedEvent<AccountEvent> =>
  accountEvents.has(event.type)

const changeAccount = (rows: Rows, id: string, change: Partial<AccountRow>): void => {
  const row = rows.get(accountsTable, [id])
  if (!row) throw new Error(`account ${id} was never created`)
  rows.put(accountsTable, { ...row, ...change })
}

const changeKey = (rows: Rows, id: string, change: Partial<KeyRow>): void => {
  const row = rows.get(keysTable, [id])
  if (!row) throw new Error(`key ${id} was never issued`)
  rows.put(keysTable, { ...row, ...change })
}

const fold = (event: RecordedEvent<AccountEvent>, rows: Rows): void => {
  const accountId = ownerOf(event.stream)
  const { position } = event
  const createdAt = event.metadata.recordedAt
  switch (event.type) {
    case 'AccountCreated': {
      const { reseller } = event.data
      const open = { blocked: false, blockedReason: null }
      rows.put(accountsTable, { accountId, position, reseller, ...open, lowBalanceMicros: null, createdAt })
      break
    }
    case 'AccountBlocked':
      changeAccount(rows, accountId, { blocked: true, blockedReason: event.data.reason })
      break
    case 'AccountUnblocked':
      changeAccount(rows, accountId, { blocked: false, blockedReason: null })
      break
    case 'LowBalanceThresholdSet':
      changeAccount(rows, accountId, { lowBalanceMicros: event.data.thresholdMicros })
      break
    case 'KeyIssued': {
      const { keyId, scopes, dailyCapCents, capCovers, displayPrefix, name, expiresAt, networks, capKeyId } =
        event.data
      rows.put(keysTable, {
        keyId,
        accountId,
        position,
        scopes,
        dailyCapCents,
        capCovers: capCovers ?? 'orders',
        revoked: false,
        displayPrefix,
        name: name ?? null,
        expiresAt: expiresAt ?? null,
        networks: networks ?? null,
        capKeyId: capKeyId ?? keyId,
        createdAt,
      })
      break
    }
    case 'KeyCapped':
      changeKey(rows, event.data.keyId, {
        dailyCapCents: event.data.dailyCapCents,
        capCovers: event.data.capCovers ?? 'orders',
      })
      break
    case 'KeyExpirySet':
      changeKey(rows, event.data.keyId, { expiresAt: event.data.expiresAt })
      break
    case 'KeyRevoked':
      changeKey(rows, event.data.keyId, { revoked: true })
      break
    case 'AccountCommitmentsAdopted':
      break
    default: {
      const unknown: never = event
      throw new Error(`unknown account event ${JSON.stringify(unknown)}`)
    }
  }
}

/** The threshold of `wallet.low_balance` of an account, micro-dollars; null: none. */
export const readLowBalanceMicros = async (db: Db, accountId: AccountId): Promise<number | null> => {
  const row = await db
    .selectFrom('read.accounts')
    .select('lowBalanceMicros')
    .where('accountId', '=', accountId)
    .executeTakeFirst()
  return row?.lowBalanceMicros ?? null
}

/** Accounts and their keys. */
export const accounts = readModel({
  name: 'accounts',
  version: 4,
  tables: [accountsTable, keysTable],
  reads: (event): RowKey[] => {
    if (!isAccount(event)) return []
    if (
      event.type === 'AccountBlocked' ||
      event.type === 'AccountUnblocked' ||
      event.type === 'LowBalanceThresholdSet'
    )
      return [{ table: accountsTable.name, key: [ownerOf(event.stream)] }]
    if (event.type === 'KeyCapped' || event.type === 'KeyExpirySet' || event.type === 'KeyRevoked')
      return [{ table: keysTable.name, key: [event.data.keyId] }]
    return []
  },
  apply: (event, rows) => {
    if (isAccount(event)) fold(event, rows)
  },
})
