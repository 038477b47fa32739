import { Map as ImmutableMap } from 'immutable'
import { isoTime } from '../../kernel/clock.ts'
import type { Fold } from '../../kernel/decider.ts'
import type { PlanId } from '../../kernel/ids.ts'
import { joinJsonMembers } from '../../kernel/json-text.ts'
import {
  dropExpired,
  emptyRemembered,
  type Remembered,
  type RememberedJson,
  remember,
  rememberedCount,
  rememberedFromJson,
  rememberedText,
} from '../../kernel/recent-ids.ts'
import { planStream } from '../../kernel/streams.ts'
import type { PlanActivated, PlanEvent } from './events.ts'

/** A plan is low if at most this percentage of its total remains (docs/reference/api.md, "Webhooks and notices"). */
export const thresholdPct = 10

/**
 * Whether a plan's traffic is low, from bytes. False for a time-based plan, and for a plan whose traffic was
 * all taken back by refunds.
 */
export const isLow = (totalBytes: number | null, usedBytes: number): boolean =>
  totalBytes !== null && totalBytes > 0 && (totalBytes - usedBytes) * 100 <= totalBytes * thresholdPct

/** The plan's answer to an order. The first answer is final. */
export type PlanAnswer =
  | { readonly outcome: 'fulfilled'; readonly at: string }
  | { readonly outcome: 'refused'; readonly reason: 'plan_expired' }

/** The allocation owner of gateway orders. `plan` is null until the first order activates it. Bytes are integers. */
export type PlanState = {
  readonly plan:
    | (Pick<
        PlanActivated['data'],
        'planId' | 'accountId' | 'customerId' | 'productId' | 'shape' | 'renewal' | 'speedUnits'
      > & {
        readonly totalBytes: number | null
        readonly usedBytes: number
        readonly expiresAtMs: number | null
        readonly exhausted: boolean
        /** Whether `PlanRanLow` is recorded and no top-up has raised the plan since. */
        readonly low: boolean
        /** The time of the last `TrafficMetered`, milliseconds since the epoch; null before the first. */
        readonly meteredAtMs: number | null
        readonly generation: number
        /** When that generation began, milliseconds since the epoch; null for the first. */
        readonly rotatedAtMs: number | null
      })
    | null
  /** The answers to the orders of the last seven days. */
  readonly answers: Remembered<PlanAnswer>
  /** Ids of the traffic reports that release 0.1.0 counted in the last seven days. */
  readonly reports: Remembered<true>
  readonly withdrawn: ImmutableMap<string, true>
}

const initial: PlanState = {
  plan: null,
  answers: emptyRemembered(),
  reports: emptyRemembered(),
  withdrawn: ImmutableMap(),
}

const evolve: Fold<PlanState, PlanEvent>['evolve'] = (before, event) => {
  const at = event.recordedAtMs
  const state = {
    ...before,
    answers: dropExpired(before.answers, at),
    reports: dropExpired(before.reports, at),
  }
  const fulfilled = (orderId: string) =>
    remember(state.answers, orderId, { outcome: 'fulfilled', at: isoTime(at) }, at)
  if (event.type === 'PlanActivated') {
    const { planId, orderId, accountId, customerId, productId } = event.data
    const { shape, renewal, bytes, speedUnits, expiresAt } = event.data
    return {
      ...state,
      plan: {
        planId,
        accountId,
        customerId,
        productId,
        shape,
        renewal,
        speedUnits,
        totalBytes: bytes,
        usedBytes: 0,
        expiresAtMs: expiresAt === null ? null : Date.parse(expiresAt),
        exhausted: false,
        low: false,
        meteredAtMs: null,
        generation: 0,
        rotatedAtMs: null,
      },
      answers: fulfilled(orderId),
    }
  }
  if (event.type === 'PlanOrderRefused') {
    const { orderId, reason } = event.data
    return { ...state, answers: remember(state.answers, orderId, { outcome: 'refused', reason }, at) }
  }
  const { plan } = state
  if (!plan) throw new Error(`${event.type} on a plan that was never activated`)
  const totalAfter = (bytes: number) => (plan.totalBytes === null ? null : plan.totalBytes + bytes)
  switch (event.type) {
    case 'PlanToppedUp': {
      const totalBytes = totalAfter(event.data.bytes)
      const low = plan.low && isLow(totalBytes, plan.usedBytes)
      return {
        ...state,
        plan: { ...plan, totalBytes, exhausted: false, low },
        answers: fulfilled(event.data.orderId),
      }
    }
    case 'PlanUnitsWithdrawn':
      return {
        ...state,
        plan: { ...plan, totalBytes: totalAfter(-event.data.bytes) },
        withdrawn: state.withdrawn.set(event.data.refundId, true),
      }
    case 'TrafficMetered':
      return {
        ...state,
        plan: { ...plan, usedBytes: event.data.usedBytes, meteredAtMs: at },
        reports:
          event.data.reportId === undefined
            ? state.reports
            : remember(state.reports, event.data.reportId, true, at),
      }
    case 'PlanRanLow':
      return { ...state, plan: { ...plan, low: true } }
    case 'PlanExhausted':
      return { ...state, plan: { ...plan, exhausted: true } }
    case 'PlanExpired':
      return { ...state, plan: { ...plan, expiresAtMs: Date.parse(event.data.expiredAt) } }
    case 'PlanCredentialRotated':
      return { ...state, plan: { ...plan, generation: event.data.generation, rotatedAtMs: at } }
    default: {
      const unknown: never = event
      throw new Error(`unknown plan event ${JSON.stringify(unknown)}`)
    }
  }
}

type Snapshot = {
  plan: PlanState['plan']
  answers: RememberedJson<PlanAnswer>
  reports: RememberedJson<true>
  withdrawn: string[]
}

export const planFold: Fold<PlanState, PlanEvent> = {
  name: 'plan',
  version: 3,
  initial,
  evolve,
  snapshot: {
    toText: ({ plan, withdrawn, answers, reports }) =>
      joinJsonMembers(
        { plan, withdrawn: [...withdrawn.keys()] },
        { answers: rememberedText(answers), reports: rememberedText(reports) },
      ),
    fromText: (text): PlanState => {
      const snapshot = JSON.parse(text) as Snapshot
      return {
        plan: snapshot.plan,
        answers: rememberedFromJson(snapshot.answers),
        reports: rememberedFromJson(snapshot.reports),
        withdrawn: ImmutableMap(snapshot.withdrawn.map((id) => [id, true as const])),
      }
    },
    entries: (state) =>
      rememberedCount(state.answers) + rememberedCount(state.reports) + state.withdrawn.size,
  },
}

/** The stream reference of a plan for a command. */
export const planRef = (plan: PlanId) => ({ stream: planStream(plan), fold: planFold })
