import type { AccountEvent } from '../../domain/accounts/events.ts'
import { capKeyOf } from '../../domain/ledger/fold.ts'
import type { OrderDetails } from '../../domain/shared/order-terms.ts'
import type { PersonEvent } from '../../domain/staff/events.ts'
import { isStaff, lifetimeOf } from '../../domain/staff/lifetimes.ts'
import type { StaffRole } from '../../domain/staff/roles.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import { centsToMicros } from '../../kernel/money.ts'
import type { KeyScope } from '../../kernel/scopes.ts'
import {
  column,
  nullable,
  type ReadModel,
  type RowKey,
  type RowOf,
  type Rows,
  readTable,
} from '../../platform/projections/read-model.ts'
import {
  type Context,
  eventRules,
  inDollars,
  type Recorded,
  type Report,
  recordedMs,
  recordViolation,
  rowKey,
  staleMs,
  subjectOf,
} from './invariant.ts'

const keysTable = readTable({
  name: 'audit_keys',
  columns: {
    keyId: column.text(),
    accountId: column.text(),
    /** Separated by spaces. */
    scopes: column.text(),
    capKeyId: column.text(),
    /** The end of the key by times of recording; null for a key that is valid until it is revoked. */
    endsMs: nullable(column.bigint()),
  },
  key: ['keyId'],
})
/** The time since which an account is blocked. Accounts that are not blocked have no row. */
const blocksTable = readTable({
  name: 'audit_blocks',
  columns: { accountId: column.text(), blockedMs: column.bigint() },
  key: ['accountId'],
})
const sessionsTable = readTable({
  name: 'audit_sessions',
  columns: { sessionId: column.text(), subjectId: column.text(), endsMs: column.bigint() },
  key: ['sessionId'],
})
/** A role that was granted to a member of the staff; `revokedMs` is null while the role is valid. */
const rolesTable = readTable({
  name: 'audit_staff_roles',
  columns: { staffId: column.text(), role: column.text(), revokedMs: nullable(column.bigint()) },
  key: ['staffId', 'role'],
})

const accountPrefix = 'account-'
const consolePrefix = 'console-'

const isAccountEvent = (event: RecordedEvent): event is RecordedEvent<AccountEvent> =>
  event.stream.startsWith(accountPrefix)
type SessionRecord = Recorded<'SignedIn' | 'SessionEnded'>
const isSession = (event: RecordedEvent): event is SessionRecord =>
  event.type === 'SignedIn' || event.type === 'SessionEnded'
type RoleRecord = Recorded<'StaffRoleGranted' | 'StaffRoleRevoked'>
const isRole = (event: RecordedEvent): event is RoleRecord =>
  event.type === 'StaffRoleGranted' || event.type === 'StaffRoleRevoked'

/** The role that a member of the staff needs to cause an event. The pages of finance only write events of months. */
const roleFor = ({ type }: RecordedEvent): StaffRole =>
  type === 'PeriodCutOff' || type === 'PeriodClosed' ? 'finance' : 'operator'

/** The scope that a key needs for the first event of each action. */
const requiredScopes: Readonly<Record<string, KeyScope>> = {
  WalletDebited: 'buy',
  CustomerCharged: 'buy',
  OrderAwaitingPayment: 'buy',
  DepositOpened: 'buy',
  SubscriptionStarted: 'buy',
  ScrapeStarted: 'scrape',
  ScrapeBatchAccepted: 'scrape',
}

type NamedKey = { readonly keyId: string; readonly capKeyId: string | null; readonly accountId: string }

/** The key that an event names, and the key whose cap it uses. */
const namedKeyIn = ({ type, data }: RecordedEvent): NamedKey | null => {
  if (!(type in requiredScopes)) return null
  const { order, pending } = data as { order?: OrderDetails; pending?: { order: OrderDetails } | null }
  const namedOrder = order ?? pending?.order
  if (namedOrder !== undefined) {
    const { keyId, capKeyId, accountId } = namedOrder
    return keyId === null ? null : { keyId, capKeyId: capKeyId ?? keyId, accountId }
  }
  const { keyId, accountId } = data as { keyId?: string | null; accountId: string }
  return typeof keyId === 'string' ? { keyId, capKeyId: null, accountId } : null
}

const keyIdOf = (event: RecordedEvent<AccountEvent>): string | null =>
  'keyId' in event.data ? event.data.keyId : null

const applyAccount = (event: RecordedEvent<AccountEvent>, rows: Rows, report: Report): void => {
  const accountId = subjectOf(event)
  const atMs = recordedMs(event)
  if (event.type === 'AccountBlocked') {
    if (rows.get(blocksTable, [accountId]) === undefined)
      rows.put(blocksTable, { accountId, blockedMs: atMs })
    return
  }
  if (event.type === 'AccountUnblocked') {
    rows.remove(blocksTable, [accountId])
    return
  }
  const keyId = keyIdOf(event)
  if (keyId === null) return
  const key = rows.get(keysTable, [keyId])
  if (event.type === 'KeyIssued') {
    const { scopes, expiresAt, rolledFrom, capKeyId } = event.data
    if (key !== undefined) report('key-twice', `key ${keyId} was issued before`)
    const previousKey = rolledFrom === undefined ? undefined : rows.get(keysTable, [rolledFrom])
    if (rolledFrom !== undefined && previousKey?.accountId !== accountId)
      report('key-rolled', `it takes the place of ${rolledFrom}, which ${accountId} does not have`)
    else if (previousKey !== undefined && previousKey.scopes !== scopes.join(' '))
      report('key-rolled', `${rolledFrom}, whose place it takes, may do: ${previousKey.scopes || 'nothing'}`)
    rows.put(keysTable, {
      keyId,
      accountId,
      scopes: scopes.join(' '),
      capKeyId: capKeyId ?? keyId,
      endsMs: expiresAt === undefined ? null : Date.parse(expiresAt),
    })
    return
  }
  if (key === undefined || key.accountId !== accountId) {
    report('key-unknown', `${accountId} has no key ${keyId}`)
    return
  }
  if (event.type === 'KeyRevoked') rows.put(keysTable, { ...key, endsMs: Math.min(atMs, key.endsMs ?? atMs) })
  if (event.type === 'KeyExpirySet') rows.put(keysTable, { ...key, endsMs: Date.parse(event.data.expiresAt) })
}

/** The session in which a person caused an event. Events on the staff's own streams contain it in their data. */
const sessionIn = (
  event: RecordedEvent,
): { readonly subjectId: string; readonly sessionId: string } | null => {
  if (event.stream.startsWith(consolePrefix)) {
    const { type, data } = event as RecordedEvent<PersonEvent>
    return type === 'AccountViewed' || type === 'WorkRetryAsked'
      ? { subjectId: data.staffId, sessionId: data.sessionId }
      : null
  }
  const { actor } = event.metadata
  return actor.kind === 'session' ? actor : null
}

const checkSession = (event: RecordedEvent, rows: Rows, report: Report): void => {
  const person = sessionIn(event)
  if (person === null) return
  const { subjectId, sessionId } = person
  if (event.stream.startsWith(consolePrefix) && event.stream !== `${consolePrefix}${subjectId}`)
    report('staff-elsewhere', `it is about ${subjectId}`)
  const sinceMs = recordedMs(event) - staleMs
  const session = rows.get(sessionsTable, [sessionId])
  if (session === undefined || session.subjectId !== subjectId)
    report('session-unknown', `no session ${sessionId} of ${subjectId} was begun`)
  else if (session.endsMs < sinceMs)
    report(
      'session-over',
      `session ${sessionId} of ${subjectId} was over since ${new Date(session.endsMs).toISOString()}`,
    )
  if (!isStaff(subjectId)) return
  const role = roleFor(event)
  const roleRow = rows.get(rolesTable, [subjectId, role])
  if (roleRow === undefined || (roleRow.revokedMs !== null && roleRow.revokedMs < sinceMs))
    report(
      'staff-role',
      `${subjectId} is no member of the staff with the role ${role} at this place of the log`,
    )
}

const applySession = (event: SessionRecord, rows: Rows): void => {
  const { sessionId, subjectId } = event.data
  const atMs = recordedMs(event)
  if (event.type === 'SignedIn') {
    const endsMs = atMs + lifetimeOf(subjectId).wholeMs
    rows.put(sessionsTable, { sessionId, subjectId, endsMs })
    return
  }
  const session = rows.get(sessionsTable, [sessionId])
  if (session !== undefined) rows.put(sessionsTable, { ...session, endsMs: Math.min(session.endsMs, atMs) })
}

const applyRole = (event: RoleRecord, rows: Rows, report: Report): void => {
  const { staffId, role } = event.data
  const { actor } = event.metadata
  if (actor.kind === 'session' || actor.kind === 'key')
    report('staff-grant', 'roles of the staff are granted and revoked at the command line alone')
  if (event.stream !== `${consolePrefix}${staffId}`) report('staff-elsewhere', `it is about ${staffId}`)
  const revokedMs = event.type === 'StaffRoleGranted' ? null : recordedMs(event)
  if (event.type === 'StaffRoleRevoked' && rows.get(rolesTable, [staffId, role]) === undefined)
    report('staff-role', `${staffId} was never granted the role ${role}`)
  rows.put(rolesTable, { staffId, role, revokedMs })
}

/** Checks that the key that caused an event was valid, and its account not blocked. */
const checkActor = (event: RecordedEvent, rows: Rows, report: Report): void => {
  const { actor } = event.metadata
  if (actor.kind !== 'key') return
  const sinceMs = recordedMs(event) - staleMs
  const { keyId, accountId } = actor
  const key = rows.get(keysTable, [keyId])
  if (key === undefined || key.accountId !== accountId) {
    report('key-unknown', `${accountId} has no key ${keyId} at this place of the log`)
    return
  }
  if (key.endsMs !== null && key.endsMs < sinceMs)
    report('key-over', `key ${keyId} was over since ${new Date(key.endsMs).toISOString()}`)
  const block = rows.get(blocksTable, [accountId])
  if (block !== undefined && block.blockedMs < sinceMs)
    report('account-blocked', `${accountId} was blocked since ${new Date(block.blockedMs).toISOString()}`)
  const owner = (event.data as { accountId?: unknown }).accountId
  if (typeof owner === 'string' && owner !== accountId)
    report('key-of-another', `a key of ${accountId} caused what is of ${owner}`)
}

/** Checks that the named key exists and that the event may name it. */
const checkNamed = (event: RecordedEvent, namedKey: NamedKey, rows: Rows, report: Report): void => {
  const { keyId, capKeyId, accountId } = namedKey
  const { actor } = event.metadata
  const key = rows.get(keysTable, [keyId])
  if (key === undefined || key.accountId !== accountId) {
    report('key-unknown', `${accountId} has no key ${keyId} at this place of the log`)
    return
  }
  if (actor.kind === 'key' && actor.keyId !== keyId)
    report('key-named', `it names key ${keyId}, and key ${actor.keyId} caused it`)
  if (capKeyId !== null && capKeyId !== key.capKeyId)
    report('key-cap', `key ${keyId} spends under ${key.capKeyId}, not under ${capKeyId}`)
  const scope = requiredScopes[event.type]
  if (scope !== undefined && !key.scopes.split(' ').includes(scope))
    report('key-scope', `key ${keyId} may not ${scope}; it may: ${key.scopes || 'nothing'}`)
}

const readsOf = (event: RecordedEvent): RowKey[] => {
  const { actor } = event.metadata
  const keys: RowKey[] = []
  if (actor.kind === 'key') keys.push(rowKey(keysTable, actor.keyId), rowKey(blocksTable, actor.accountId))
  const person = sessionIn(event)
  if (person !== null) {
    keys.push(rowKey(sessionsTable, person.sessionId))
    if (isStaff(person.subjectId)) keys.push(rowKey(rolesTable, person.subjectId, roleFor(event)))
  }
  if (isRole(event)) keys.push(rowKey(rolesTable, event.data.staffId, event.data.role))
  if (isSession(event)) keys.push(rowKey(sessionsTable, event.data.sessionId))
  const namedKey = namedKeyIn(event)
  if (namedKey !== null) keys.push(rowKey(keysTable, namedKey.keyId))
  if (!isAccountEvent(event)) return keys
  keys.push(rowKey(blocksTable, subjectOf(event)))
  const ids = [keyIdOf(event), event.type === 'KeyIssued' ? event.data.rolledFrom : null]
  for (const id of ids) if (typeof id === 'string') keys.push(rowKey(keysTable, id))
  return keys
}

/**
 * Authority of keys and sessions. A key that caused an event was issued before it to that account and had not ended,
 * and the account was not blocked. The key that an order, a subscription, a deposit or a scrape names belongs to its
 * account, has the required scope, and uses the cap key that the event names. A person who caused an event in the
 * console had started the session, and the session had not ended. A member of the staff had the required role.
 */
export const authorityRules: ReadModel = {
  name: 'audit-authority',
  version: 3,
  tables: [keysTable, blocksTable, sessionsTable, rolesTable],
  reads: readsOf,
  apply: (event, rows) => {
    const report: Report = (rule, problem) => recordViolation(rows, event, rule, problem)
    checkSession(event, rows, report)
    // Not for `console-` streams: signing in starts a session.
    if (!event.stream.startsWith(consolePrefix)) checkActor(event, rows, report)
    const namedKey = namedKeyIn(event)
    if (namedKey !== null) checkNamed(event, namedKey, rows, report)
    if (isAccountEvent(event)) return applyAccount(event, rows, report)
    if (isRole(event)) return applyRole(event, rows, report)
    if (isSession(event)) applySession(event, rows)
  },
}

const minuteMs = 60_000
const windowMs = 24 * 60 * minuteMs
/** Longer than the time between an order's read of its key and its append. */
const changeGraceMs = 60_000

/** A key with a cap, and the amounts spent under it since the cap exists. */
const capsTable = readTable({
  name: 'audit_caps',
  columns: {
    keyId: column.text(),
    capCents: nullable(column.bigint()),
    /** The cap before the last change: an order may have been in progress at the change. */
    formerCents: nullable(column.bigint()),
    changedAt: column.text(),
    /** The amounts of the last 24 hours, oldest first. */
    spent: column.jsonb<readonly (readonly [minute: number, micros: number])[]>(),
  },
  key: ['keyId'],
})
type CapRow = RowOf<typeof capsTable>
type Spending = Recorded<'WalletDebited' | 'CustomerCharged'>
type Capping = Recorded<'KeyIssued' | 'KeyCapped'>

/** The key of an event, and the key whose cap it uses: the key itself, or the first key that it was rolled from. */
const capKeysOf = ({
  data,
}: Spending | Capping): { readonly keyId: string; readonly capKeyId: string } | null => {
  if ('order' in data) {
    const { keyId } = data.order
    return keyId === null ? null : { keyId, capKeyId: capKeyOf(data.order) ?? keyId }
  }
  return { keyId: data.keyId, capKeyId: data.capKeyId ?? data.keyId }
}

const changeCap = (event: Capping, { rows }: Context): void => {
  const { keyId, capKeyId } = capKeysOf(event)!
  const { dailyCapCents } = event.data
  const changedAt = event.metadata.recordedAt
  const row = rows.get(capsTable, [keyId])
  if (row === undefined && dailyCapCents === null) return
  rows.put(capsTable, {
    keyId,
    capCents: dailyCapCents,
    formerCents: row?.capCents ?? null,
    changedAt,
    spent: row?.spent ?? [],
  })
  if (rows.get(capsTable, [capKeyId]) === undefined)
    rows.put(capsTable, { keyId: capKeyId, capCents: null, formerCents: null, changedAt, spent: [] })
}

/** The cap for an order at this time; null without a cap. */
const capAt = ({ capCents: cap, formerCents: former, changedAt }: CapRow, atMs: number): number | null => {
  if (atMs - Date.parse(changedAt) > changeGraceMs) return cap
  return cap === null || former === null ? null : Math.max(cap, former)
}

/** Checks what a debit says of its key's cap: the limit, and a spending between the counted one and the limit. */
const checkKeyCap = (event: Spending, row: CapRow | undefined, sum: number, report: Report): void => {
  const { keyCap } = event.data
  if (keyCap === undefined) return
  const isChanging = row !== undefined && recordedMs(event) - Date.parse(row.changedAt) <= changeGraceMs
  const caps = [row?.capCents, isChanging ? row.formerCents : null]
  if (!caps.includes(keyCap.capCents))
    report('key-cap-reported', `it names a cap of ${keyCap.capCents} cents, which its key does not have`)
  else if (keyCap.spentMicros < sum || keyCap.spentMicros > centsToMicros(keyCap.capCents))
    report(
      'key-cap-reported',
      `it says that ${inDollars(keyCap.spentMicros)} were spent, and ${inDollars(sum)} are in the log`,
    )
}

const checkSpending = (event: Spending, { rows, report }: Context): void => {
  const keys = capKeysOf(event)
  const spender = keys === null ? undefined : rows.get(capsTable, [keys.capKeyId])
  if (keys === null || spender === undefined) return
  const atMs = recordedMs(event)
  const minute = Math.floor(atMs / minuteMs)
  const micros = event.type === 'CustomerCharged' ? event.data.costMicros : event.data.amountMicros
  const recent = spender.spent.filter(([bucketMinute]) => (bucketMinute + 1) * minuteMs > atMs - windowMs)
  const last = recent.at(-1)
  const spent =
    last !== undefined && last[0] >= minute
      ? recent.with(-1, [last[0], last[1] + micros])
      : [...recent, [minute, micros] as const]
  const sum = spent.reduce((total, [, bucketMicros]) => total + bucketMicros, 0)
  const row = rows.get(capsTable, [keys.keyId])
  const cap = row === undefined ? null : capAt(row, atMs)
  if (cap !== null && sum > centsToMicros(cap))
    report(
      'spend-cap',
      `key ${keys.keyId} spent ${inDollars(sum)} in 24 hours, more than its cap of ${inDollars(centsToMicros(cap))}`,
    )
  checkKeyCap(event, row, sum, report)
  rows.put(capsTable, { ...spender, spent })
}

/** No key spends more than its cap in any 24 hours, in whole minutes. Rolled keys share one cap. */
export const capRules = eventRules({
  name: 'audit-caps',
  version: 3,
  tables: [capsTable],
  reads: (event) => {
    const keys = capKeysOf(event)
    return keys === null ? [] : [...new Set(Object.values(keys))].map((key) => rowKey(capsTable, key))
  },
  on: {
    WalletDebited: checkSpending,
    CustomerCharged: checkSpending,
    KeyIssued: changeCap,
    KeyCapped: changeCap,
  },
})
