import type { AccountEvent } from '../src/domain/accounts/events.ts'
import type { LedgerEvent } from '../src/domain/ledger/events.ts'
import type { Audience } from '../src/domain/notices/audiences.ts'
import type { PlanRanLow } from '../src/domain/plans/events.ts'
import {
  capTriggerOf,
  lowBalanceTrigger,
  type WebhookTrigger,
  webhookTriggers,
} from '../src/domain/webhooks/causes.ts'
import {
  type DeliveryCanceled,
  type EndpointEvent,
  isSubscribed,
  type Subscription,
  type WebhookEnqueued,
  type WebhookEventName,
} from '../src/domain/webhooks/events.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import { ownerOf } from '../src/kernel/streams.ts'
import {
  column,
  nullable,
  type RowKey,
  type RowOf,
  type Rows,
  readModel,
  readTable,
} from '../src/platform/projections/read-model.ts'
import { createLowPlans, type LowTrafficRow } from './plans.ts'

type Listener = {
  readonly endpointId: string
  readonly events: Subscription
  readonly active: boolean
  /** The position from which it receives these events as a member of the account's audiences; null if disabled. */
  readonly since: number | null
}

/** The data of an account that determines the receivers of webhooks: one row per account. */
const accountsTable = readTable({
  name: 'webhook_accounts',
  columns: {
    accountId: column.text(),
    reseller: column.boolean(),
    activeKeys: column.integer(),
    endpoints: column.jsonb<readonly Listener[]>(),
    /** Low plans. Expired plans may be included. */
    lowPlans: column.textArray(),
    /** The threshold of `wallet.low_balance`; null: none. */
    lowBalanceMicros: nullable(column.bigint()),
  },
  key: ['accountId'],
})

export type WebhookAccountRow = RowOf<typeof accountsTable>

/** An endpoint received these events, in these audiences, from position `since` (inclusive) to `until` (exclusive). */
const subscriptionsTable = readTable({
  name: 'webhook_subscriptions',
  columns: {
    endpointId: column.text(),
    sincePosition: column.bigint(),
    untilPosition: nullable(column.bigint()),
    accountId: column.text(),
    /** Null: all events. */
    events: nullable(column.textArray<WebhookEventName>()),
    reseller: column.boolean(),
    /** The account had a key. */
    developer: column.boolean(),
  },
  key: ['endpointId', 'sincePosition'],
  indexes: ['endpoint_id where until_position is null'],
})

export type WebhookSubscriptionRow = RowOf<typeof subscriptionsTable>

const lowPlans = createLowPlans('webhook_low_plans')

/** One event that one endpoint must receive, according to the log, from its cause until it is enqueued. */
const dueTable = readTable({
  name: 'webhooks_due',
  columns: {
    endpointId: column.text(),
    event: column.text<WebhookEventName>(),
    resource: column.text(),
    accountId: column.text(),
    /** The position of the cause, followed by the id and the correlation id of the cause. */
    position: column.bigint(),
    causeId: column.text(),
    correlationId: column.text(),
    causedAt: column.timestamptz(),
    /** The payload as JSON text; null if it is the order `resource` as of `order_revision`. */
    data: nullable(column.text()),
    orderRevision: nullable(column.bigint()),
    /** True for low plans only: their rows remain, so that a plan that is low again is not announced again. */
    enqueued: column.boolean(),
  },
  key: ['endpointId', 'event', 'resource'],
  indexes: ['position, endpoint_id, resource where not enqueued'],
})

export type WebhookDueRow = RowOf<typeof dueTable>

/** A delivery that was enqueued after its endpoint was disabled or removed. It must be canceled. */
const staleTable = readTable({
  name: 'webhooks_stale',
  columns: {
    deliveryId: column.text(),
    endpointId: column.text(),
    event: column.text<WebhookEventName>(),
    resource: column.text(),
    reason: column.text<'endpoint_disabled' | 'endpoint_removed'>(),
    position: column.bigint(),
    revision: column.bigint(),
    correlationId: column.text(),
    causeId: column.text(),
    causedAt: column.timestamptz(),
  },
  key: ['deliveryId'],
  indexes: ['position'],
})

/** A cause for the endpoints of an audience, as of its position. */
const announcementsTable = readTable({
  name: 'webhook_announcements',
  columns: {
    position: column.bigint(),
    causeId: column.text(),
    correlationId: column.text(),
    event: column.text<WebhookEventName>(),
    resource: column.text(),
    audience: column.text<Audience>(),
    causedAt: column.timestamptz(),
    data: column.text(),
  },
  key: ['position'],
  appendOnly: true,
})

export type WebhookAnnouncementRow = RowOf<typeof announcementsTable>

/** Falls of an available balance below the threshold of its account. Each is mailed once. */
const lowBalancesTable = readTable({
  name: 'low_balances',
  columns: {
    position: column.bigint(),
    transactionId: column.text(),
    accountId: column.text(),
    thresholdMicros: column.bigint(),
    at: column.timestamptz(),
  },
  key: ['position'],
  appendOnly: true,
})

/** The largest part of a key's daily cap that was notified on its last such day. */
const keyCapsTable = readTable({
  name: 'webhook_key_caps',
  columns: { capKeyId: column.text(), day: column.text(), level: column.integer() },
  key: ['capKeyId'],
})

const accountEvents: ReadonlySet<string> = new Set<AccountEvent['type']>([
  'AccountCreated',
  'KeyIssued',
  'KeyRevoked',
  'LowBalanceThresholdSet',
])
/** The events that take money from the available balance of a wallet. */
const spendingEvents: ReadonlySet<string> = new Set<LedgerEvent['type']>([
  'WalletDebited',
  'FundsHeld',
  'CustomerCharged',
  'WalletAdjusted',
])
const endpointEvents: ReadonlySet<string> = new Set<EndpointEvent['type']>([
  'EndpointRegistered',
  'EndpointChanged',
  'EndpointDisabled',
  'EndpointRemoved',
])
const accountOf = (rows: Rows, accountId: string): WebhookAccountRow =>
  rows.get(accountsTable, [accountId]) ?? {
    accountId,
    reseller: false,
    activeKeys: 0,
    endpoints: [],
    lowPlans: [],
    lowBalanceMicros: null,
  }

const listens = ({ active, events }: Listener, event: WebhookEventName): boolean =>
  active && isSubscribed(events, event)

type DueCause = Pick<WebhookTrigger, 'event' | 'resource' | 'data'>

const dueRow = (
  { position, id, metadata }: RecordedEvent,
  { event, resource, data }: DueCause,
  account: Pick<WebhookAccountRow, 'accountId'>,
  endpointId: string,
): WebhookDueRow => ({
  endpointId,
  event,
  resource,
  accountId: account.accountId,
  position,
  causeId: id,
  correlationId: metadata.correlationId,
  causedAt: metadata.recordedAt,
  data: data.kind === 'ready' ? JSON.stringify(data.data) : null,
  orderRevision: data.kind === 'order' ? data.throughRevision : null,
  enqueued: false,
})

/** The receivers are the endpoints at the position of the event, which is the position of the fold. */
const applyCause = (event: RecordedEvent, cause: WebhookTrigger, rows: Rows): void => {
  if ('audience' in cause.to) {
    if (cause.data.kind !== 'ready') throw new Error(`${cause.event} tells many, and its data is not there`)
    rows.add(announcementsTable, {
      position: event.position,
      causeId: event.id,
      correlationId: event.metadata.correlationId,
      event: cause.event,
      resource: cause.resource,
      audience: cause.to.audience,
      causedAt: event.metadata.recordedAt,
      data: JSON.stringify(cause.data.data),
    })
    return
  }
  const account = accountOf(rows, cause.to.accountId)
  for (const endpoint of account.endpoints)
    if (listens(endpoint, cause.event)) rows.put(dueTable, dueRow(event, cause, account, endpoint.endpointId))
}

/** Adds what a debit of a wallet causes: the fall below the threshold, and the highest reached part of its key's cap. */
const applySpending = (event: RecordedEvent<LedgerEvent>, rows: Rows): void => {
  const { accountId, lowBalanceMicros } = accountOf(rows, ownerOf(event.stream))
  const low = lowBalanceMicros === null ? null : lowBalanceTrigger(event, lowBalanceMicros)
  if (low !== null && lowBalanceMicros !== null) {
    applyCause(event, low, rows)
    rows.add(lowBalancesTable, {
      position: event.position,
      transactionId: low.resource,
      accountId,
      thresholdMicros: lowBalanceMicros,
      at: event.metadata.recordedAt,
    })
  }
  const cap = capTriggerOf(event)
  if (cap === null) return
  const { capKeyId, day, level, trigger } = cap
  const previous = rows.get(keyCapsTable, [capKeyId])
  if (previous?.day === day && previous.level >= level) return
  applyCause(event, trigger, rows)
  rows.put(keyCapsTable, { capKeyId, day, level })
}

/** The payload of `plan.low_traffic` without the label and the product name, which are added when it is queued. */
const lowPlanData = ({ planId, productId, totalBytes, usedBytes, expiresAt }: LowTrafficRow) => ({
  planId,
  productId,
  totalBytes,
  remainingBytes: Math.max(0, totalBytes - usedBytes),
  expiresAt,
})

/** Only once for each endpoint and plan, even after a top-up. */
const addLowPlanDue = (event: RecordedEvent, plan: LowTrafficRow, endpointId: string, rows: Rows): void => {
  const dueCause = { event: 'plan.low_traffic', resource: plan.planId } as const
  if (rows.get(dueTable, [endpointId, dueCause.event, dueCause.resource])) return
  rows.put(
    dueTable,
    dueRow(event, { ...dueCause, data: { kind: 'ready', data: lowPlanData(plan) } }, plan, endpointId),
  )
}

const applyPlan = (event: RecordedEvent, plan: LowTrafficRow, low: boolean, rows: Rows): void => {
  const account = accountOf(rows, plan.accountId)
  if (account.lowPlans.includes(plan.planId) !== low)
    rows.put(accountsTable, {
      ...account,
      lowPlans: low
        ? [...account.lowPlans, plan.planId]
        : account.lowPlans.filter((planId) => planId !== plan.planId),
    })
  if (event.type !== 'PlanRanLow') return
  for (const endpoint of account.endpoints)
    if (listens(endpoint, 'plan.low_traffic')) addLowPlanDue(event, plan, endpoint.endpointId, rows)
}

const intervalOf = (
  { accountId, reseller, activeKeys }: WebhookAccountRow,
  { endpointId, events }: Listener,
  since: number,
): WebhookSubscriptionRow => ({
  endpointId,
  sincePosition: since,
  untilPosition: null,
  accountId,
  events,
  reseller,
  developer: activeKeys > 0,
})

/**
 * Writes the account as it is from the position on. Ends and begins intervals of its endpoints if their events or
 * their audiences changed.
 */
const changeAccount = (
  before: WebhookAccountRow,
  after: WebhookAccountRow,
  position: number,
  rows: Rows,
): void => {
  const previousById = new Map(before.endpoints.map((endpoint) => [endpoint.endpointId, endpoint]))
  const sameAudiences = before.reseller === after.reseller && before.activeKeys > 0 === after.activeKeys > 0
  const end = (endpoint: Listener): void => {
    if (endpoint.since === null) return
    rows.put(subscriptionsTable, {
      ...intervalOf(before, endpoint, endpoint.since),
      untilPosition: position,
    })
  }
  const endpoints = after.endpoints.map((endpoint): Listener => {
    const previous = previousById.get(endpoint.endpointId)
    previousById.delete(endpoint.endpointId)
    const isUnchanged =
      previous !== undefined &&
      sameAudiences &&
      previous.active === endpoint.active &&
      JSON.stringify(previous.events) === JSON.stringify(endpoint.events)
    if (isUnchanged) return previous
    if (previous) end(previous)
    if (!endpoint.active) return { ...endpoint, since: null }
    rows.put(subscriptionsTable, intervalOf(after, endpoint, position))
    return { ...endpoint, since: position }
  })
  for (const removed of previousById.values()) end(removed)
  rows.put(accountsTable, { ...after, endpoints })
}

const applyAccount = (event: RecordedEvent<AccountEvent>, rows: Rows): void => {
  const before = accountOf(rows, ownerOf(event.stream))
  const change =
    event.type === 'AccountCreated'
      ? { reseller: event.data.reseller }
      : event.type === 'LowBalanceThresholdSet'
        ? { lowBalanceMicros: event.data.thresholdMicros }
        : { activeKeys: before.activeKeys + (event.type === 'KeyIssued' ? 1 : -1) }
  changeAccount(before, { ...before, ...change }, event.position, rows)
}

const changedListener = (
  event: RecordedEvent<EndpointEvent>,
  previous: Listener | undefined,
): Listener | null => {
  const { endpointId } = event.data
  if (event.type === 'EndpointRegistered')
    return { endpointId, events: event.data.events, active: true, since: null }
  if (!previous) throw new Error(`${event.type} on the endpoint ${endpointId}, which is not there`)
  switch (event.type) {
    case 'EndpointChanged': {
      const { events = previous.events, status } = event.data
      return { ...previous, events, active: status === undefined ? previous.active : status === 'active' }
    }
    case 'EndpointDisabled':
      return { ...previous, active: false }
    default:
      return null
  }
}

/** An endpoint that starts to receive `plan.low_traffic` is informed of each plan that is already low. */
const applyEndpoint = (event: RecordedEvent<EndpointEvent>, rows: Rows): void => {
  const { endpointId, accountId } = event.data
  const account = accountOf(rows, accountId)
  const previous = account.endpoints.find((endpoint) => endpoint.endpointId === endpointId)
  const current = changedListener(event, previous)
  const endpoints = previous
    ? account.endpoints.flatMap((endpoint) => (endpoint === previous ? (current ?? []) : endpoint))
    : [...account.endpoints, ...(current ? [current] : [])]
  changeAccount(account, { ...account, endpoints }, event.position, rows)
  if (
    !current ||
    !listens(current, 'plan.low_traffic') ||
    (previous && listens(previous, 'plan.low_traffic'))
  )
    return
  for (const planId of account.lowPlans) {
    const plan = rows.get(lowPlans.table, [planId])
    if (plan && (plan.expiresAt === null || plan.expiresAt > event.metadata.recordedAt))
      addLowPlanDue(event, plan, endpointId, rows)
  }
}

const applyEnqueued = (event: RecordedEvent<WebhookEnqueued>, rows: Rows): void => {
  const { deliveryId, endpointId, accountId, event: name, resource } = event.data
  const endpoint = accountOf(rows, accountId).endpoints.find((each) => each.endpointId === endpointId)
  // A ping is requested by hand, so a disabled endpoint receives it, too.
  if (endpoint === undefined || !(endpoint.active || name === 'ping'))
    rows.put(staleTable, {
      deliveryId,
      endpointId,
      event: name,
      resource,
      reason: endpoint ? 'endpoint_disabled' : 'endpoint_removed',
      position: event.position,
      revision: event.revision,
      correlationId: event.metadata.correlationId,
      causeId: event.id,
      causedAt: event.metadata.recordedAt,
    })
  if (name !== 'plan.low_traffic') {
    rows.remove(dueTable, [endpointId, name, resource])
    return
  }
  const dueCause = { event: name, resource, data: { kind: 'ready', data: event.data.data } } as const
  rows.put(dueTable, { ...dueRow(event, dueCause, { accountId }, endpointId), enqueued: true })
}

const readsOf = (event: RecordedEvent): readonly RowKey[] => {
  const account = (id: string): RowKey => ({ table: accountsTable.name, key: [id] })
  const cause = webhookTriggers.get(event.type)?.(event)
  if (cause) return 'audience' in cause.to ? [] : [account(cause.to.accountId)]
  if (event.type === 'WebhookEnqueued')
    return [account((event as RecordedEvent<WebhookEnqueued>).data.accountId)]
  if (event.type === 'PlanRanLow') return [account((event as RecordedEvent<PlanRanLow>).data.accountId)]
  if (accountEvents.has(event.type)) return [account(ownerOf(event.stream))]
  if (spendingEvents.has(event.type)) {
    const cap = capTriggerOf(event)
    return [
      account(ownerOf(event.stream)),
      ...(cap === null ? [] : [{ table: keyCapsTable.name, key: [cap.capKeyId] }]),
    ]
  }
  return endpointEvents.has(event.type)
    ? [account((event as RecordedEvent<EndpointEvent>).data.accountId)]
    : lowPlans.reads(event)
}

/**
 * The webhooks to send and their endpoints. They are folded in log order, so that an endpoint receives the events of
 * the time in which it was subscribed, even if they are processed late. A row of `webhooks_due` exists from its cause
 * to its `WebhookEnqueued`. A cause for an audience is one row, and the intervals of all subscriptions determine its
 * receivers.
 */
export const webhookCauses = readModel({
  name: 'webhook-causes',
  version: 5,
  tables: [
    accountsTable,
    subscriptionsTable,
    lowPlans.table,
    dueTable,
    staleTable,
    announcementsTable,
    lowBalancesTable,
    keyCapsTable,
  ],
  reads: readsOf,
  apply: (event, rows) => {
    const cause = webhookTriggers.get(event.type)?.(event)
    const folded = lowPlans.fold(event, rows)
    if (cause) applyCause(event, cause, rows)
    else if (folded) applyPlan(event, folded.plan, folded.low, rows)
    else if (spendingEvents.has(event.type)) applySpending(event as RecordedEvent<LedgerEvent>, rows)
    else if (event.type === 'WebhookEnqueued') applyEnqueued(event as RecordedEvent<WebhookEnqueued>, rows)
    else if (event.type === 'DeliveryCanceled')
      rows.remove(staleTable, [(event as RecordedEvent<DeliveryCanceled>).data.deliveryId])
    else if (accountEvents.has(event.type)) applyAccount(event as RecordedEvent<AccountEvent>, rows)
    else if (endpointEvents.has(event.type)) applyEndpoint(event as RecordedEvent<EndpointEvent>, rows)
  },
})
