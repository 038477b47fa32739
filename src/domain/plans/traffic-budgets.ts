import { createCalendar, type TimeSpan } from '../../kernel/calendar.ts'
import { isoTime } from '../../kernel/clock.ts'
import { type Decided, decided, type Fold, type StreamRef } from '../../kernel/decider.ts'
import { defineEvent, type EventOf, type RecordedEvent } from '../../kernel/event.ts'
import { anyId, id, integer, oneOf, orNull, text, time } from '../../kernel/event-fields.ts'
import { type AccountId, type CustomerId, deriveId, type PlanId } from '../../kernel/ids.ts'
import { trafficBudgetStream } from '../../kernel/streams.ts'
import { budgetPeriods } from './budget-periods.ts'

/** A `trafficbudget-{budget}` stream: a limit for the traffic of a day, a week or a month. 1 GB = 1,000,000,000 bytes. */
const stream = 'trafficbudget-{budget}'

/** What a budget limits: all lines of a plan, one set of its lines, one entry of its whitelist, or a customer's plans. */
export const budgetScopes = ['plan', 'line_set', 'whitelist_entry', 'customer'] as const
export type BudgetScope = (typeof budgetScopes)[number]

const owner = {
  budgetId: id('tbg', 'the budget'),
  accountId: id<AccountId>('acc', 'the account that the plans belong to'),
}
const target = {
  scope: oneOf(budgetScopes, 'what it limits'),
  planId: orNull(id<PlanId>('pln', 'the plan; null: all plans of the customer')),
  lineSet: orNull(text('the id of the set in the usernames of its lines; null: no set')),
  whitelistEntryId: orNull(anyId('the entry of the whitelist; null: none')),
  customerId: orNull(anyId<CustomerId>("the reseller's customer; null: the account itself")),
  period: oneOf(budgetPeriods, 'a week begins on Monday'),
}
const limitBytes = integer('bytes', 'above 0', 'the most of a period, in both directions')

export const trafficBudgetSet = defineEvent('TrafficBudgetSet', {
  stream,
  means: 'A traffic budget was created, or its limit or its time zone was changed.',
  fields: {
    ...owner,
    ...target,
    timeZone: text('the time zone of the periods (IANA)'),
    limitBytes,
  },
})
export const trafficBudgetReset = defineEvent('TrafficBudgetReset', {
  stream,
  means: 'The traffic of the current period before this event no longer counts.',
  fields: owner,
})
export const trafficBudgetRemoved = defineEvent('TrafficBudgetRemoved', {
  stream,
  means: 'The traffic budget was removed: it limits nothing more.',
  fields: owner,
})
export const trafficBudgetReached = defineEvent('TrafficBudgetReached', {
  stream,
  means: 'A part of the traffic budget is used. At 100 % the gateways pass no more traffic in this period.',
  fields: {
    ...owner,
    ...target,
    percent: integer('percent', 'above 0', '80 or 100'),
    usedBytes: integer('bytes', '0 or more', 'used in the period'),
    limitBytes,
    countedFrom: time(
      'the start of the period, or later: when it or its time zone was set, or the last reset',
    ),
    countedUntil: time('the end of the period'),
  },
})
export type TrafficBudgetReached = EventOf<typeof trafficBudgetReached>

/** Identifies a reached part, also after a rebuild: the budget, and the number of the event in its stream. */
export const reachedIdOf = ({ data, revision }: RecordedEvent<TrafficBudgetReached>): string =>
  `${data.budgetId}.${revision}`

export const trafficBudgetEventDefinitions = [
  trafficBudgetSet,
  trafficBudgetReset,
  trafficBudgetRemoved,
  trafficBudgetReached,
] as const
export type TrafficBudgetEvent = EventOf<(typeof trafficBudgetEventDefinitions)[number]>

export type TrafficBudget = EventOf<typeof trafficBudgetSet>['data']
/** What a budget limits, and its period. It never changes. */
export type BudgetTarget = Pick<
  TrafficBudget,
  'scope' | 'planId' | 'lineSet' | 'whitelistEntryId' | 'customerId' | 'period'
>
export type BudgetTerms = Pick<TrafficBudget, 'timeZone' | 'limitBytes'>

const haveSameTerms = (one: BudgetTerms, other: BudgetTerms): boolean =>
  one.limitBytes === other.limitBytes && one.timeZone === other.timeZone

export type TrafficBudgetState = {
  /** Null before it is set, and after its removal. */
  readonly budget: TrafficBudget | null
  /** Traffic before this time does not count: when it or its time zone was set, or the last reset. Milliseconds. */
  readonly resetAtMs: number
  /** The last reported part, its period, and the terms at that time; null: none. */
  readonly reached: {
    readonly countedFrom: string
    readonly percent: number
    readonly terms: BudgetTerms
  } | null
}

const initial: TrafficBudgetState = { budget: null, resetAtMs: 0, reached: null }

const fold: Fold<TrafficBudgetState, TrafficBudgetEvent> = {
  name: 'traffic-budget',
  version: 1,
  initial,
  evolve: (state, event) => {
    switch (event.type) {
      case 'TrafficBudgetSet':
        return {
          ...state,
          budget: event.data,
          // The bytes before it were not counted, or from the start of another period.
          resetAtMs: state.budget?.timeZone === event.data.timeZone ? state.resetAtMs : event.recordedAtMs,
        }
      case 'TrafficBudgetReset':
        return { ...state, resetAtMs: event.recordedAtMs }
      case 'TrafficBudgetRemoved':
        return { ...state, budget: null }
      case 'TrafficBudgetReached': {
        const { countedFrom, percent, limitBytes } = event.data
        const { timeZone = '' } = state.budget ?? {}
        return { ...state, reached: { countedFrom, percent, terms: { timeZone, limitBytes } } }
      }
      default: {
        const unknown: never = event
        throw new Error(`unknown event of a traffic budget ${JSON.stringify(unknown)}`)
      }
    }
  },
}

export const trafficBudgetRef = (budgetId: string): StreamRef<TrafficBudgetState> => ({
  stream: trafficBudgetStream(budgetId),
  fold,
})

/** A target has one budget for each period. */
export const trafficBudgetIdOf = (accountId: AccountId, target: BudgetTarget): string =>
  deriveId('tbg', [
    accountId,
    'traffic-budget',
    target.scope,
    target.planId ?? '',
    target.lineSet ?? '',
    target.whitelistEntryId ?? '',
    target.customerId ?? '',
    target.period,
  ])

/** The bytes since `fromMs` count until `toMs`, milliseconds since the epoch. */
export const countedSpan = (
  { period, timeZone }: Pick<TrafficBudget, 'period' | 'timeZone'>,
  resetAtMs: number,
  nowMs: number,
): TimeSpan => {
  const span = createCalendar(timeZone).spanOf(period, nowMs)
  return { ...span, fromMs: Math.max(span.fromMs, resetAtMs) }
}

export const decideBudget = (
  state: TrafficBudgetState,
  accountId: AccountId,
  target: BudgetTarget,
  terms: BudgetTerms,
): Decided<TrafficBudgetEvent, { readonly isNew: boolean }> => {
  const { budget } = state
  const isNew = budget === null
  const isSame = budget !== null && haveSameTerms(budget, terms)
  const budgetId = trafficBudgetIdOf(accountId, target)
  const { scope, planId, lineSet, whitelistEntryId, customerId, period } = target
  const { timeZone, limitBytes } = terms
  const data = {
    budgetId,
    accountId,
    scope,
    planId,
    lineSet,
    whitelistEntryId,
    customerId,
    period,
    timeZone,
    limitBytes,
  }
  return { ...(isSame ? decided() : decided({ type: 'TrafficBudgetSet', data } as const)), isNew }
}

const ownerOf = ({ budgetId, accountId }: TrafficBudget) => ({ budgetId, accountId })

export const decideBudgetReset = ({ budget }: TrafficBudgetState): Decided<TrafficBudgetEvent> =>
  budget === null ? decided() : decided({ type: 'TrafficBudgetReset', data: ownerOf(budget) })

export const decideBudgetRemoval = ({ budget }: TrafficBudgetState): Decided<TrafficBudgetEvent> =>
  budget === null ? decided() : decided({ type: 'TrafficBudgetRemoved', data: ownerOf(budget) })

/** The parts of a budget, in percent, that are reported once in a period. */
export const reportedPercents = [80, 100] as const

/** A counter of used bytes, and the time since which they count, milliseconds since the epoch. */
export type BudgetUse = { readonly usedBytes: number; readonly countedFromMs: number }

/**
 * One event for the highest reported part that is used and not yet in the log for this period and these terms. A part
 * below it is not reported with it, because its webhook could arrive second. None for bytes
 * that no longer count: of a removed budget, before its reset, or before a period that was reported already.
 */
export const decideReached = (
  { budget, resetAtMs, reached }: TrafficBudgetState,
  { usedBytes, countedFromMs }: BudgetUse,
): Decided<
  TrafficBudgetEvent,
  {
    /** The highest reported part of this use, in percent; null: the use no longer counts. */
    readonly reachedPercent: number | null
    /** The present limit; null: it was removed. */
    readonly limitBytes: number | null
  }
> => {
  const isOfTerms = reached !== null && budget !== null && haveSameTerms(reached.terms, budget)
  const reportedFromMs = isOfTerms ? Date.parse(reached.countedFrom) : 0
  if (budget === null || countedFromMs < Math.max(resetAtMs, reportedFromMs))
    return { ...decided(), reachedPercent: null, limitBytes: budget?.limitBytes ?? null }
  const { timeZone: _, ...data } = budget
  const { limitBytes } = budget
  const known = isOfTerms && reportedFromMs === countedFromMs ? reached.percent : 0
  const percent = reportedPercents.findLast((part) => usedBytes * 100 >= limitBytes * part) ?? 0
  if (percent <= known) return { ...decided(), reachedPercent: known, limitBytes }
  const countedFrom = isoTime(countedFromMs)
  const countedUntil = isoTime(countedSpan(budget, resetAtMs, countedFromMs).toMs)
  const reachedData = { ...data, percent, usedBytes, countedFrom, countedUntil }
  return {
    ...decided({ type: 'TrafficBudgetReached', data: reachedData }),
    reachedPercent: percent,
    limitBytes,
  }
}
