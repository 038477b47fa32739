import type { AccountEvent } from '../../../market/accounts/events.ts'
import type { RecordedEvent } from '../../../platform/eventstore/event.ts'
import type { Audience } from '../../notices/notice.ts'
import { type Cause, type CauseData, causes } from '../causes.ts'
import type { WebhookEventName } from '../event-names.ts'
import type {
  DeliveryCanceled,
  DeliveryOutcome,
  EndpointEvent,
  WebhookEnqueued,
  WebhookRequeued,
} from '../events.ts'
import { type LowPlans, lowPlanData } from '../low-plans.ts'
import { isOutcome, outcomeTypes } from '../outcomes.ts'
import { endpointEvents, isEndpointEvent, type Subscribers, startsListening } from './subscribers.ts'

/** One event for one endpoint, to be put into the log unless it is there. */
export type Wanted = {
  readonly endpointId: string
  readonly accountId: string
  readonly event: WebhookEventName
  readonly resource: string
  readonly data: CauseData
  /** The fact that causes it; it is not enqueued before it. */
  readonly cause: { readonly id: string; readonly correlationId: string; readonly recordedAtMs: number }
}

/** What the log says is to be sent. */
export type Queued = RecordedEvent<WebhookEnqueued> | RecordedEvent<WebhookRequeued>

export type AccountChange = {
  readonly accountId: string
  readonly created: { readonly reseller: boolean } | null
  readonly keys: number
}

/** A value of the vault that is used no more from an instant on (milliseconds since the epoch). */
export type Superseded = { readonly valueId: string; readonly eraseAtMs: number }

type CancelReason = DeliveryCanceled['data']['reason']

/** What ends a step: it looks at all that was written before it. */
export type Barrier =
  | {
      readonly kind: 'fan-out'
      readonly event: RecordedEvent
      readonly cause: Cause
      readonly audience: Audience
    }
  | {
      readonly kind: 'cancel'
      readonly event: RecordedEvent
      readonly endpointId: string
      readonly reason: CancelReason
    }

/** What a run of events asks for, up to a barrier. */
export type Step = {
  /** How far it comes, its barrier included. */
  readonly to: number
  readonly wanted: readonly Wanted[]
  readonly queued: readonly Queued[]
  /** Of what is queued, what nobody is to get any more: a late reactor enqueues for endpoints that are gone by now. */
  readonly stale: readonly { readonly queued: Queued; readonly reason: CancelReason }[]
  /** Outcomes, so that what is done is not sent again after a crash, or from tables of an older backup. */
  readonly outcomes: readonly RecordedEvent<DeliveryOutcome>[]
  readonly endpoints: ReadonlySet<string>
  readonly plans: ReadonlySet<string>
  readonly accounts: readonly AccountChange[]
  readonly superseded: readonly Superseded[]
  readonly barrier: Barrier | null
}

export const isIdle = (step: Step): boolean =>
  step.barrier === null &&
  step.wanted.length + step.queued.length + step.outcomes.length === 0 &&
  step.accounts.length + step.endpoints.size + step.plans.size === 0

const causeOf = ({ id, metadata }: RecordedEvent): Wanted['cause'] => ({
  id,
  correlationId: metadata.correlationId,
  recordedAtMs: Date.parse(metadata.recordedAt),
})

const accountChange = (event: RecordedEvent): AccountChange | null => {
  const accountId = event.stream.slice(event.stream.indexOf('-') + 1)
  const { type, data } = event as RecordedEvent<AccountEvent>
  if (type === 'AccountCreated')
    return { accountId, created: { reseller: (data as { reseller: boolean }).reseller }, keys: 0 }
  if (type === 'KeyIssued') return { accountId, created: null, keys: 1 }
  if (type === 'KeyRevoked') return { accountId, created: null, keys: -1 }
  return null
}

/** How long a replaced URL is kept: a worker that leased the endpoint before the change may still need it. */
const replacedUrlMs = 60 * 60 * 1000

const supersededBy = ({ type, data, metadata }: RecordedEvent<EndpointEvent>): Superseded | null => {
  if (type === 'SecretRotated')
    return { valueId: data.previousSecretId, eraseAtMs: Date.parse(data.previousUntil) }
  if (type !== 'EndpointChanged' || data.previousUrlId === undefined) return null
  return { valueId: data.previousUrlId, eraseAtMs: Date.parse(metadata.recordedAt) + replacedUrlMs }
}

/** Told by the fact alone: after a crash in the middle of a cancellation the endpoint is folded already. */
const cancelReason = (event: RecordedEvent<EndpointEvent>): CancelReason | null => {
  if (event.type === 'EndpointRemoved') return 'endpoint_removed'
  if (event.type === 'EndpointDisabled') return 'endpoint_disabled'
  return event.type === 'EndpointChanged' && event.data.status === 'disabled' ? 'endpoint_disabled' : null
}

/** A ping and a redelivery were asked for by hand: a disabled endpoint gets them too. */
const staleReason = ({ type, data }: Queued, subscribers: Subscribers): CancelReason | null => {
  const subscriber = subscribers.get(data.endpointId)
  if (!subscriber) return 'endpoint_removed'
  const byHand = type === 'WebhookRequeued' || data.event === 'ping'
  return subscriber.active || byHand ? null : 'endpoint_disabled'
}

const planEvents: ReadonlySet<string> = new Set([
  'PlanRanLow',
  'PlanToppedUp',
  'PlanUnitsWithdrawn',
  'TrafficMetered',
  'PlanExpired',
])

/**
 * Rises with what the reactor knows of, or does about it. A process of an older release would pass over what it does not
 * know, and whoever takes over after it starts behind that: so the new version also stands in a migration
 * (`work.webhook_reactor.version`, row and default), and a process below it leaves the place where it is.
 */
export const reactorVersion = 3

/** The stored types that say something to the reactor. Of the thousands of other events a second it sees the name only. */
export const reactorTypes: ReadonlySet<string> = new Set([
  ...causes.keys(),
  ...planEvents,
  ...endpointEvents,
  ...outcomeTypes,
  'WebhookEnqueued',
  'WebhookRequeued',
  'AccountCreated',
  'KeyIssued',
  'KeyRevoked',
])

/**
 * Folds events in log order into endpoints and low plans, and gathers what they ask for, up to the first barrier or,
 * without one, up to the position `through`. The type decides first: most events concern nobody.
 */
export const takeStep = (
  events: readonly RecordedEvent[],
  through: number,
  { subscribers, lowPlans }: { readonly subscribers: Subscribers; readonly lowPlans: LowPlans },
): Step => {
  const wanted: Wanted[] = []
  const queued: Queued[] = []
  const stale: { queued: Queued; reason: CancelReason }[] = []
  const outcomes: RecordedEvent<DeliveryOutcome>[] = []
  const endpoints = new Set<string>()
  const plans = new Set<string>()
  const accounts: AccountChange[] = []
  const superseded: Superseded[] = []
  const done = (to: number, barrier: Barrier | null): Step => ({
    to,
    wanted,
    queued,
    stale,
    outcomes,
    endpoints,
    plans,
    accounts,
    superseded,
    barrier,
  })
  const wantLowPlan = (endpointId: string, accountId: string, planId: string, cause: RecordedEvent): void => {
    const plan = lowPlans.get(planId)
    if (!plan) return
    const data: CauseData = { kind: 'ready', data: lowPlanData(plan) }
    wanted.push({
      endpointId,
      accountId,
      event: 'plan.low_traffic',
      resource: planId,
      data,
      cause: causeOf(cause),
    })
  }

  for (const event of events) {
    const cause = causes.get(event.type)?.(event)
    if (cause) {
      if ('audience' in cause.to)
        return done(event.position, { kind: 'fan-out', event, cause, audience: cause.to.audience })
      for (const { endpointId, accountId } of subscribers.of(cause.to.accountId, cause.event))
        wanted.push({ ...cause, endpointId, accountId, cause: causeOf(event) })
    } else if (planEvents.has(event.type)) {
      const planId = lowPlans.fold(event)
      if (planId === null) continue
      plans.add(planId)
      if (event.type !== 'PlanRanLow') continue
      const { accountId } = lowPlans.get(planId)!
      for (const { endpointId } of subscribers.of(accountId, 'plan.low_traffic'))
        wantLowPlan(endpointId, accountId, planId, event)
    } else if (event.type === 'WebhookEnqueued' || event.type === 'WebhookRequeued') {
      queued.push(event as Queued)
      const reason = staleReason(event as Queued, subscribers)
      if (reason) stale.push({ queued: event as Queued, reason })
    } else if (isOutcome(event)) {
      outcomes.push(event)
    } else if (isEndpointEvent(event)) {
      const changed = subscribers.fold(event)
      const { endpointId, accountId } = event.data
      endpoints.add(endpointId)
      const former = supersededBy(event)
      if (former) superseded.push(former)
      if (startsListening(changed, 'plan.low_traffic'))
        for (const { planId } of lowPlans.of(accountId, event.metadata.recordedAt))
          wantLowPlan(endpointId, accountId, planId, event)
      const reason = cancelReason(event)
      if (reason) return done(event.position, { kind: 'cancel', event, endpointId, reason })
    } else {
      const change = event.stream.startsWith('account-') ? accountChange(event) : null
      if (change) accounts.push(change)
    }
  }
  return done(through, null)
}
