import type { AccountEvent } from '../../domain/accounts/events.ts'
import type { OrderDetails } from '../../domain/shared/order-terms.ts'
import type { PersonEvent } from '../../domain/staff/events.ts'
import { isStaff, lifetimeOf } from '../../domain/staff/lifetimes.ts'
import type { StaffRole } from '../../domain/staff/roles.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import { centsToMicros } from '../../kernel/money.ts'
import type { KeyCap, KeyScope } from '../../kernel/scopes.ts'
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

type Buckets = readonly (readonly [minute: number, micros: number])[]
/** A cap, and the time of its replacement; null for the current one. */
type CapVersion = { readonly cap: KeyCap | null; readonly replacedMs: number | null }

/** A key with a cap, and the amounts spent under it since the cap exists. */
const capsTable = readTable({
  name: 'audit_caps',
  columns: {
    keyId: column.text(),
    /** First the current cap, then those replaced less than `changeGraceMs` ago: an order in progress may use them. */
    caps: column.jsonb<readonly CapVersion[]>(),
    /** The amounts of orders in the last 24 hours, oldest first. */
    spent: column.jsonb<Buckets>(),
    /** The billed amounts of calls in the last 24 hours, oldest first. */
    called: column.jsonb<Buckets>(),
    /** The amounts held for calls. */
    heldMicros: column.bigint(),
  },
  key: ['keyId'],
})
type CapRow = RowOf<typeof capsTable>
type Spending = Recorded<'WalletDebited' | 'CustomerCharged' | 'FundsHeld'>
type HoldEnd = Recorded<'HoldCaptured' | 'HoldReleased'>
type Capping = Recorded<'KeyIssued' | 'KeyCapped'>

/**
 * The key of an event, and the key whose cap it uses: the key itself, or the first key that it was rolled from. The end
 * of a hold names the second only.
 */
const capKeysOf = ({
  data,
}: Spending | HoldEnd | Capping): { readonly keyId: string; readonly capKeyId: string } | null => {
  const key = 'order' in data ? data.order : data
  const keyId = ('keyId' in key ? key.keyId : key.capKeyId) ?? null
  return keyId === null ? null : { keyId, capKeyId: key.capKeyId ?? keyId }
}

const uncapped: readonly CapVersion[] = [{ cap: null, replacedMs: null }]
const unspent = { spent: [], called: [], heldMicros: 0 }

/** The caps that may apply at this time, first the current one. */
const capsAt = (row: CapRow | undefined, atMs: number): readonly CapVersion[] =>
  (row?.caps ?? uncapped).filter(
    ({ replacedMs }) => replacedMs === null || atMs - replacedMs <= changeGraceMs,
  )

const changeCap = (event: Capping, { rows }: Context): void => {
  const { keyId, capKeyId } = capKeysOf(event)!
  const { dailyCapCents, capCovers = 'orders' } = event.data
  const cap = dailyCapCents === null ? null : { cents: dailyCapCents, covers: capCovers }
  const atMs = recordedMs(event)
  const row = rows.get(capsTable, [keyId])
  if (row === undefined && cap === null) return
  const formerCaps = capsAt(row, atMs).map((former) => ({
    ...former,
    replacedMs: former.replacedMs ?? atMs,
  }))
  const caps = [{ cap, replacedMs: null }, ...formerCaps]
  rows.put(capsTable, { ...unspent, ...row, keyId, caps })
  if (rows.get(capsTable, [capKeyId]) === undefined)
    rows.put(capsTable, { ...unspent, keyId: capKeyId, caps: uncapped })
}

const inBuckets = (buckets: Buckets, micros: number, atMs: number): Buckets => {
  const minute = Math.floor(atMs / minuteMs)
  const recent = buckets.filter(([bucketMinute]) => (bucketMinute + 1) * minuteMs > atMs - windowMs)
  if (micros === 0) return recent
  const last = recent.at(-1)
  return last !== undefined && last[0] >= minute
    ? recent.with(-1, [last[0], last[1] + micros])
    : [...recent, [minute, micros] as const]
}

const sumOf = (buckets: Buckets): number => buckets.reduce((total, [, micros]) => total + micros, 0)

/** What counts against a cap, micro-dollars. */
const countedMicros = ({ spent, called, heldMicros }: CapRow, { covers }: Pick<KeyCap, 'covers'>): number =>
  sumOf(spent) + (covers === 'everything' ? sumOf(called) + heldMicros : 0)

/** Checks what an event says of its key's cap: the limit, and a spending between the counted one and the limit. */
const checkKeyCap = (
  { data: { keyCap } }: Spending,
  caps: readonly (KeyCap | null)[],
  spender: CapRow,
  report: Report,
): void => {
  if (keyCap === undefined) return
  const { capCents, covers, spentMicros } = keyCap
  const countedSum = countedMicros(spender, keyCap)
  if (!caps.some((cap) => cap?.cents === capCents && cap.covers === covers))
    report(
      'key-cap-reported',
      `it names a cap of ${capCents} cents that covers ${covers}, and its key has no such cap`,
    )
  else if (spentMicros < countedSum || spentMicros > centsToMicros(capCents))
    report(
      'key-cap-reported',
      `it says that ${inDollars(spentMicros)} were spent, and ${inDollars(countedSum)} are in the log`,
    )
}

const costOf = ({ type, data }: Spending): number =>
  type === 'CustomerCharged' ? data.costMicros : data.amountMicros

const checkSpending = (event: Spending, { rows, report }: Context): void => {
  const keys = capKeysOf(event)
  const before = keys === null ? undefined : rows.get(capsTable, [keys.capKeyId])
  if (keys === null || before === undefined) return
  const atMs = recordedMs(event)
  const isCall = event.type === 'FundsHeld'
  const micros = costOf(event)
  const spender: CapRow = {
    ...before,
    spent: inBuckets(before.spent, isCall ? 0 : micros, atMs),
    called: inBuckets(before.called, 0, atMs),
    heldMicros: before.heldMicros + (isCall ? micros : 0),
  }
  const caps = capsAt(rows.get(capsTable, [keys.keyId]), atMs).map(({ cap }) => cap)
  const isAllowed = (cap: KeyCap | null): boolean =>
    cap === null ||
    (isCall && cap.covers === 'orders') ||
    countedMicros(spender, cap) <= centsToMicros(cap.cents)
  const [cap] = caps
  if (cap && !caps.some(isAllowed))
    report(
      'spend-cap',
      `key ${keys.keyId} spent ${inDollars(countedMicros(spender, cap))} in 24 hours, more than its cap of ${inDollars(centsToMicros(cap.cents))}`,
    )
  checkKeyCap(event, caps, spender, report)
  rows.put(capsTable, spender)
}

const endHold = (event: HoldEnd, { rows }: Context): void => {
  const keys = capKeysOf(event)
  const row = keys === null ? undefined : rows.get(capsTable, [keys.capKeyId])
  if (row === undefined) return
  const { amountMicros } = event.data
  rows.put(capsTable, {
    ...row,
    called: inBuckets(row.called, event.type === 'HoldCaptured' ? amountMicros : 0, recordedMs(event)),
    // The hold may be older than the row.
    heldMicros: Math.max(0, row.heldMicros - amountMicros),
  })
}

/** No key spends more than its cap in any 24 hours, in whole minutes. Rolled keys share one cap. */
export const capRules = eventRules({
  name: 'audit-caps',
  version: 5,
  tables: [capsTable],
  reads: (event) => {
    const keys = capKeysOf(event)
    return keys === null ? [] : [...new Set(Object.values(keys))].map((key) => rowKey(capsTable, key))
  },
  on: {
    WalletDebited: checkSpending,
    CustomerCharged: checkSpending,
    FundsHeld: checkSpending,
    HoldCaptured: endHold,
    HoldReleased: endHold,
    KeyIssued: changeCap,
    KeyCapped: changeCap,
  },
})
