import type { AccountEvent } from '../src/domain/accounts/events.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import type { KeyScope as Scope } from '../src/kernel/scopes.ts'
import { ownerOf } from '../src/kernel/streams.ts'
import type { ReadModel, RowKey, Rows, Table } from '../src/platform/projections/read-model.ts'

/** One row per account. Its e-mail address is in the vault. */
export type AccountRow = {
  account_id: string
  position: number
  reseller: boolean
  blocked: boolean
  blocked_reason: string | null
  created_at: string
}

/** One row per API key. Its hash is in the vault. */
export type KeyRow = {
  key_id: string
  account_id: string
  position: number
  scopes: readonly Scope[]
  /** The limit in whole cents within any 24 hours; null: no limit. */
  daily_cap_cents: number | null
  revoked: boolean
  display_prefix: string
  name: string | null
  expires_at: string | null
  /** The networks in which it is valid; null: all networks. */
  networks: readonly string[] | null
  /** The key whose daily limit its spending counts against. */
  cap_key_id: string
  created_at: string
}

const accountsTable: Table<AccountRow> = {
  name: 'accounts',
  columns: {
    account_id: { type: 'text' },
    position: { type: 'bigint' },
    reseller: { type: 'boolean' },
    blocked: { type: 'boolean' },
    blocked_reason: { type: 'text', nullable: true },
    created_at: { type: 'timestamptz' },
  },
  key: ['account_id'],
  indexes: [],
}

const keysTable: Table<KeyRow> = {
  name: 'keys',
  columns: {
    key_id: { type: 'text' },
    account_id: { type: 'text' },
    position: { type: 'bigint' },
    scopes: { type: 'text[]' },
    daily_cap_cents: { type: 'bigint', nullable: true },
    revoked: { type: 'boolean' },
    display_prefix: { type: 'text' },
    name: { type: 'text', nullable: true },
    expires_at: { type: 'timestamptz', nullable: true },
    networks: { type: 'text[]', nullable: true },
    cap_key_id: { type: 'text' },
    created_at: { type: 'timestamptz' },
  },
  key: ['key_id'],
  indexes: ['account_id, position desc'],
}

const accountEvents: ReadonlySet<string> = new Set<AccountEvent['type']>([
  'AccountCreated',
  'AccountBlocked',
  'AccountUnblocked',
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
  const created_at = event.metadata.recordedAt
  switch (event.type) {
    case 'AccountCreated': {
      const { reseller } = event.data
      const open = { blocked: false, blocked_reason: null }
      rows.put(accountsTable, { account_id: accountId, position, reseller, ...open, created_at })
      break
    }
    case 'AccountBlocked':
      changeAccount(rows, accountId, { blocked: true, blocked_reason: event.data.reason })
      break
    case 'AccountUnblocked':
      changeAccount(rows, accountId, { blocked: false, blocked_reason: null })
      break
    case 'KeyIssued': {
      const { keyId, scopes, dailyCapCents, displayPrefix, name, expiresAt, networks, capKeyId } = event.data
      rows.put(keysTable, {
        key_id: keyId,
        account_id: accountId,
        position,
        scopes,
        daily_cap_cents: dailyCapCents,
        revoked: false,
        display_prefix: displayPrefix,
        name: name ?? null,
        expires_at: expiresAt ?? null,
        networks: networks ?? null,
        cap_key_id: capKeyId ?? keyId,
        created_at,
      })
      break
    }
    case 'KeyCapped':
      changeKey(rows, event.data.keyId, { daily_cap_cents: event.data.dailyCapCents })
      break
    case 'KeyExpirySet':
      changeKey(rows, event.data.keyId, { expires_at: event.data.expiresAt })
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

/** Accounts and their keys. */
export const accounts: ReadModel = {
  name: 'accounts',
  version: 2,
  tables: [accountsTable, keysTable],
  reads: (event): RowKey[] => {
    if (!isAccount(event)) return []
    if (event.type === 'AccountBlocked' || event.type === 'AccountUnblocked')
      return [{ table: accountsTable.name, key: [ownerOf(event.stream)] }]
    if (event.type === 'KeyCapped' || event.type === 'KeyExpirySet' || event.type === 'KeyRevoked')
      return [{ table: keysTable.name, key: [event.data.keyId] }]
    return []
  },
  apply: (event, rows) => {
    if (isAccount(event)) fold(event, rows)
  },
}
