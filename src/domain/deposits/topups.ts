import { isoTime } from '../../kernel/clock.ts'
import type { CommandDecision, Fold, StreamRef } from '../../kernel/decider.ts'
import { applyDecided } from '../../kernel/decider.ts'
import { requestDigest } from '../../kernel/digest.ts'
import { defineEvent, type EventOf } from '../../kernel/event.ts'
import { cents, id, integer, oneOf, orAbsent, orNull, text } from '../../kernel/event-fields.ts'
import { type AccountId, compactUuid, type DepositId, deriveId } from '../../kernel/ids.ts'
import { centsToMicros, microsToCentsFloor } from '../../kernel/money.ts'
import { topupStream } from '../../kernel/streams.ts'
import type { AccountState } from '../accounts/fold.ts'
import type { LedgerState } from '../ledger/fold.ts'
import { floorCents, maxDepositCents, type Provider, reversalReasons } from '../payments/payments.ts'
import { decideFailure, decideOpen } from './decide.ts'
import type { DepositState } from './fold.ts'

const stream = 'topup-{account}'
const accountId = id<AccountId>('acc', 'the account of the wallet')

/** A `topup-{account}` stream: the automatic top-up of a wallet. It has no card data but the brand and four digits. */
export const paymentMethodSaved = defineEvent('PaymentMethodSaved', {
  stream,
  means: 'The customer saved a card on the page of the payment provider. It replaces an earlier one.',
  fields: {
    accountId,
    setupId: text("the id at the provider of the page's session, which saves a card once"),
    gatewayId: text('the gateway of the service at which the card is saved'),
    customerReference: text("the provider's id of the payer"),
    methodReference: text("the provider's id of the card"),
    brand: text('the brand of the card, to show'),
    lastFour: text('the last four digits of the card, to show'),
  },
})

export const paymentMethodRemoved = defineEvent('PaymentMethodRemoved', {
  stream,
  means: 'The customer removed the saved card. No automatic top-up is requested without a card.',
  fields: { accountId, methodReference: text("the provider's id of the card") },
})

/** `card`: a saved card is charged. `crypto`: an invoice is sent by e-mail, and the customer pays it. */
export const topupMethods = ['card', 'crypto'] as const
export type TopupMethod = (typeof topupMethods)[number]

const settingsFields = {
  thresholdCents: cents('above 0', 'a lower available balance requests a top-up'),
  amountCents: orNull(cents('above 0', 'the amount of each top-up; null: up to the target balance')),
  targetBalanceCents: orNull(cents('above 0', 'the balance after a top-up; null: a fixed amount')),
  monthlyMaxCents: cents('above 0', 'the most of a calendar month in UTC'),
  method: orAbsent(oneOf(topupMethods, 'how a top-up is paid; absent: by the saved card')),
}

export const topupSettingsChanged = defineEvent('TopupSettingsChanged', {
  stream,
  means: 'Automatic top-up is on, with these settings. Earlier failures no longer count.',
  fields: { accountId, ...settingsFields },
})

export const topupTurnedOff = defineEvent('TopupTurnedOff', {
  stream,
  means: 'Automatic top-up is off.',
  fields: { accountId, reason: oneOf(['customer', 'failures'], 'who or what turned it off') },
})

/** Refunds, disputes and blocks of the account. Each later one pauses automatic top-up. */
const incidentFields = {
  reversals: integer(
    'movements',
    '0 or more',
    'how often a refund or a dispute had taken money from the wallet',
  ),
  blocks: integer('blocks', '0 or more', 'how often the account had been blocked'),
}

/** The first three pause it until the customer resumes it, the last one until the next month. */
export const pauseReasons = [...reversalReasons, 'account_blocked', 'monthly_maximum'] as const
export type TopupPauseReason = (typeof pauseReasons)[number]

export const topupPaused = defineEvent('TopupPaused', {
  stream,
  means:
    'No top-up is requested: after a refund, a dispute or a block until `TopupResumed`, at the monthly maximum until the next month (UTC) or until the settings change.',
  fields: {
    accountId,
    reason: oneOf(pauseReasons, 'why'),
    owedCents: cents('0 or more', 'the debt of the account, rounded up; the next payments pay it first'),
    ...incidentFields,
  },
})
export type TopupPaused = EventOf<typeof topupPaused>

export const topupResumed = defineEvent('TopupResumed', {
  stream,
  means:
    'The customer resumed automatic top-up after a pause, or turned it on after a refund, a dispute or a block.',
  fields: { accountId, ...incidentFields },
})

const topupFields = { accountId, topupId: id('top', 'the top-up') }

export const topupRequested = defineEvent('TopupRequested', {
  stream,
  means:
    'The balance is below the threshold: one payment by the saved card, or one invoice, was decided. The provider is called after this event.',
  fields: {
    ...topupFields,
    depositId: id<DepositId>('dep', 'the deposit that the payment is credited to'),
    amountCents: cents('above 0', 'the amount of the payment'),
  },
})

export const topupPaid = defineEvent('TopupPaid', {
  stream,
  means: 'The payment was made, and its deposit is credited. An invoice is closed, and may be paid in part.',
  fields: topupFields,
})

export const failureReasons = [
  'authentication_required',
  'card_declined',
  'expired_card',
  'card_removed',
  'paused',
  'payment_failed',
  'no_answer',
  'invoice_expired',
] as const
export type TopupFailureReason = (typeof failureReasons)[number]

export const topupFailed = defineEvent('TopupFailed', {
  stream,
  means: 'The payment was not made. After three failures in a row `TopupTurnedOff` follows.',
  fields: {
    ...topupFields,
    amountCents: cents('above 0', 'the amount that was not paid'),
    reason: oneOf(failureReasons, 'why'),
    failures: integer('failures', 'above 0', 'the failures in a row, with this one'),
  },
})
export type TopupFailed = EventOf<typeof topupFailed>

export const topupEventDefinitions = [
  paymentMethodSaved,
  paymentMethodRemoved,
  topupSettingsChanged,
  topupTurnedOff,
  topupPaused,
  topupResumed,
  topupRequested,
  topupPaid,
  topupFailed,
] as const
export type TopupEvent = EventOf<(typeof topupEventDefinitions)[number]>

export type SavedMethod = Omit<EventOf<typeof paymentMethodSaved>['data'], 'accountId'>
export type TopupSettings = Omit<EventOf<typeof topupSettingsChanged>['data'], 'accountId'>

/** The first failures wait this long, milliseconds. After one more failure automatic top-up is turned off. */
export const retryAfterMs: readonly number[] = [3_600_000, 24 * 3_600_000]
export const maxFailures = retryAfterMs.length + 1

type Incidents = Pick<TopupPaused['data'], keyof typeof incidentFields>

export type OpenTopup = {
  readonly topupId: string
  readonly depositId: DepositId
  readonly amountCents: number
  readonly requestedAtMs: number
  /** The card that is charged. Null: the deposit has an invoice, which the customer pays. */
  readonly method: SavedMethod | null
}

export type TopupState = {
  readonly method: SavedMethod | null
  /** The sessions that saved a card. */
  readonly setups: ReadonlySet<string>
  /** Null: automatic top-up is off. */
  readonly settings: TopupSettings | null
  readonly open: OpenTopup | null
  /** The number of requested top-ups. */
  readonly requests: number
  /** The failures in a row. */
  readonly failures: number
  /** No top-up is requested before this time, milliseconds since the epoch. */
  readonly retryAtMs: number
  readonly lastFailure: TopupFailureReason | null
  /** Why it is paused until the customer resumes it. */
  readonly pause: TopupPauseReason | null
  /** The refunds, disputes and blocks that were followed by a pause, or preceded a resumption. */
  readonly incidents: Incidents
  /** The month of the last notice that the maximum is reached, `yyyy-mm`. */
  readonly limitMonth: string
  /** The calendar month in UTC of the last request, `yyyy-mm`, and what its top-ups took, with an open one. */
  readonly month: string
  readonly monthCents: number
}

export const noTopups: TopupState = {
  method: null,
  setups: new Set(),
  settings: null,
  open: null,
  requests: 0,
  failures: 0,
  retryAtMs: 0,
  lastFailure: null,
  pause: null,
  incidents: { reversals: 0, blocks: 0 },
  limitMonth: '',
  month: '',
  monthCents: 0,
}

/** Whether a top-up is paid by an invoice, without a saved card. */
const isByInvoice = (settings: TopupSettings | null): boolean => settings?.method === 'crypto'

const monthOf = (ms: number): string => new Date(ms).toISOString().slice(0, 7)

/** The id of a pause in webhooks and e-mails. */
export const pauseIdOf = (eventId: string): string => `pau_${compactUuid(eventId)}`

/** The end of the pause of a monthly maximum, ISO 8601 UTC. */
export const nextMonth = (ms: number): string => {
  const date = new Date(ms)
  return isoTime(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1))
}

/** What the top-ups of the month of this time took. */
export const takenCents = (
  { month, monthCents }: Pick<TopupState, 'month' | 'monthCents'>,
  nowMs: number,
): number => (month === monthOf(nowMs) ? monthCents : 0)

/** The pause at this time, and when it ends by itself. */
export const pauseOf = (
  { settings, pause, limitMonth }: Pick<TopupState, 'settings' | 'pause' | 'limitMonth'>,
  nowMs: number,
): { readonly reason: TopupPauseReason; readonly until: string | null } | null => {
  if (settings === null) return null
  if (pause !== null) return { reason: pause, until: null }
  return limitMonth === monthOf(nowMs) ? { reason: 'monthly_maximum', until: nextMonth(nowMs) } : null
}

const evolve: Fold<TopupState, TopupEvent>['evolve'] = (state, event) => {
  switch (event.type) {
    case 'PaymentMethodSaved': {
      const { accountId: _, ...method } = event.data
      return {
        ...state,
        method,
        setups: new Set([...state.setups, method.setupId]),
        failures: 0,
        retryAtMs: 0,
      }
    }
    case 'PaymentMethodRemoved':
      return { ...state, method: null }
    case 'TopupSettingsChanged': {
      const { accountId: _, ...settings } = event.data
      return { ...state, settings, failures: 0, retryAtMs: 0, limitMonth: '' }
    }
    case 'TopupTurnedOff':
      return { ...state, settings: null }
    case 'TopupPaused': {
      const { reason, reversals, blocks } = event.data
      return reason === 'monthly_maximum'
        ? { ...state, limitMonth: monthOf(event.recordedAtMs) }
        : { ...state, pause: reason, incidents: { reversals, blocks } }
    }
    case 'TopupResumed': {
      const { reversals, blocks } = event.data
      return { ...state, pause: null, incidents: { reversals, blocks }, failures: 0, retryAtMs: 0 }
    }
    case 'TopupRequested': {
      const { topupId, depositId, amountCents } = event.data
      const byInvoice = isByInvoice(state.settings)
      if (state.open || !(byInvoice || state.method))
        throw new Error(`top-up ${topupId} while it cannot be requested`)
      const requestedAtMs = event.recordedAtMs
      return {
        ...state,
        open: { topupId, depositId, amountCents, requestedAtMs, method: byInvoice ? null : state.method },
        requests: state.requests + 1,
        month: monthOf(requestedAtMs),
        monthCents: takenCents(state, requestedAtMs) + amountCents,
      }
    }
    case 'TopupPaid':
      return { ...state, open: null, failures: 0, retryAtMs: 0, lastFailure: null }
    case 'TopupFailed': {
      const { reason, failures, amountCents } = event.data
      return {
        ...state,
        open: null,
        failures,
        lastFailure: reason,
        retryAtMs: event.recordedAtMs + (retryAfterMs[failures - 1] ?? 0),
        monthCents: state.monthCents - amountCents,
      }
    }
    default:
      return event satisfies never
  }
}

export const topupFold: Fold<TopupState, TopupEvent> = {
  name: 'topup',
  version: 1,
  initial: noTopups,
  evolve,
}

export const topupRef = (account: AccountId): StreamRef<TopupState> => ({
  stream: topupStream(account),
  fold: topupFold,
})

export const topupIdOf = (account: AccountId, number: number): string => deriveId('top', [account, number])
/** The deposit of the next top-up of an account. */
export const nextDepositId = (account: AccountId, { requests }: TopupState): DepositId =>
  topupDepositIdOf(account, topupIdOf(account, requests + 1))

/** The deposit of a top-up. No idempotency key of a client leads to it. */
export const topupDepositIdOf = (account: AccountId, topupId: string): DepositId =>
  deriveId('dep', [account, 'topup', topupId])

const append = (account: AccountId, ...events: readonly TopupEvent[]) => ({
  stream: topupStream(account),
  events,
})

/** Saves a card once for each session: a callback that is delivered again does not save a removed card. */
export const decideSaved = (
  state: TopupState,
  account: AccountId,
  method: SavedMethod,
): CommandDecision<'saved' | 'saved_before'> =>
  state.setups.has(method.setupId)
    ? { appends: [], answer: 'saved_before' }
    : {
        appends: [append(account, { type: 'PaymentMethodSaved', data: { accountId: account, ...method } })],
        answer: 'saved',
      }

/** The smallest top-up. */
export const minTopupCents = floorCents('card')
/** The most of a month that can be set. */
export const maxMonthlyCents = 100_000_00

/** What is wrong with settings; null: nothing is. */
export const settingsProblem = (settings: TopupSettings): string | null => {
  const { thresholdCents, amountCents, targetBalanceCents, monthlyMaxCents } = settings
  if ((amountCents === null) === (targetBalanceCents === null))
    return 'give either amountCents or targetBalanceCents'
  if (thresholdCents > maxDepositCents) return `thresholdCents must be at most ${maxDepositCents}`
  if (amountCents !== null && (amountCents < minTopupCents || amountCents > maxDepositCents))
    return `amountCents must be from ${minTopupCents} to ${maxDepositCents}`
  if (targetBalanceCents !== null && targetBalanceCents < thresholdCents + minTopupCents)
    return `targetBalanceCents must be at least ${minTopupCents} above thresholdCents`
  if (targetBalanceCents !== null && targetBalanceCents > maxDepositCents)
    return `targetBalanceCents must be at most ${maxDepositCents}`
  if (monthlyMaxCents < (amountCents ?? minTopupCents) || monthlyMaxCents > maxMonthlyCents)
    return `monthlyMaxCents must be from ${amountCents ?? minTopupCents} to ${maxMonthlyCents}`
  return null
}

type IncidentStates = {
  readonly topup: TopupState
  readonly ledger: Pick<LedgerState, 'receivableMicros' | 'lastReversal'>
  readonly account: AccountState
}

const incidentsOf = ({ ledger, account }: Omit<IncidentStates, 'topup'>): Incidents => ({
  reversals: ledger.lastReversal?.number ?? 0,
  blocks: account?.blocks ?? 0,
})

/** The latest refund, dispute or block that was not followed by a pause; null: there is none. */
const newIncident = (states: IncidentStates): Exclude<TopupPauseReason, 'monthly_maximum'> | null => {
  const { reversals, blocks } = incidentsOf(states)
  const { incidents } = states.topup
  if (states.ledger.lastReversal && reversals > incidents.reversals) return states.ledger.lastReversal.reason
  return blocks > incidents.blocks ? 'account_blocked' : null
}

const pausing = (states: IncidentStates, account: AccountId, reason: TopupPauseReason): TopupEvent => ({
  type: 'TopupPaused',
  data: {
    accountId: account,
    reason,
    owedCents: -microsToCentsFloor(-states.ledger.receivableMicros),
    ...incidentsOf(states),
  },
})

/**
 * Pauses automatic top-up after a refund, a dispute or a block: these lower the balance without any use, and the next
 * payment may be refunded or disputed, too. The answer is the state after that.
 */
export const decidePause = (
  states: IncidentStates,
  account: AccountId,
  nowMs: number,
): CommandDecision<TopupState> => {
  const { topup } = states
  const reason = topup.settings === null || topup.pause !== null ? null : newIncident(states)
  if (reason === null) return { appends: [], answer: topup }
  const event = pausing(states, account, reason)
  return { appends: [append(account, event)], answer: applyDecided(topupFold, topup, [event], nowMs) }
}

const areEqual = (one: TopupSettings, other: TopupSettings): boolean =>
  one.thresholdCents === other.thresholdCents &&
  one.amountCents === other.amountCents &&
  one.targetBalanceCents === other.targetBalanceCents &&
  one.monthlyMaxCents === other.monthlyMaxCents &&
  isByInvoice(one) === isByInvoice(other)

/**
 * Turns automatic top-up on, or changes its settings. A paused one stays paused unless the customer resumes it. The
 * answer is the state after that. Settings that are in use already are no change, so the failures still count and the
 * notice of the month is not repeated.
 */
export const decideSettings = (
  states: IncidentStates,
  account: AccountId,
  { resume, ...settings }: TopupSettings & { readonly resume: boolean },
  nowMs: number,
): CommandDecision<TopupState> => {
  const { topup } = states
  const resumes =
    topup.settings === null
      ? topup.pause !== null || newIncident(states) !== null
      : resume && topup.pause !== null
  const events: TopupEvent[] = []
  if (topup.settings === null || !areEqual(topup.settings, settings))
    events.push({ type: 'TopupSettingsChanged', data: { accountId: account, ...settings } })
  if (resumes) events.push({ type: 'TopupResumed', data: { accountId: account, ...incidentsOf(states) } })
  return {
    appends: events.length === 0 ? [] : [append(account, ...events)],
    answer: applyDecided(topupFold, topup, events, nowMs),
  }
}

/** Turns automatic top-up off and removes the card. The answer is the removed card. */
export const decideRemoval = (state: TopupState, account: AccountId): CommandDecision<SavedMethod | null> => {
  const off = { type: 'TopupTurnedOff', data: { accountId: account, reason: 'customer' } } as const
  const events: TopupEvent[] = state.settings === null ? [] : [off]
  if (state.method !== null)
    events.push({
      type: 'PaymentMethodRemoved',
      data: { accountId: account, methodReference: state.method.methodReference },
    })
  return { appends: events.length === 0 ? [] : [append(account, ...events)], answer: state.method }
}

type AmountState = Pick<TopupState, 'settings' | 'retryAtMs' | 'month' | 'monthCents'> & {
  readonly method: unknown
  readonly open: unknown
  readonly pause: unknown
}

/** The amount of a top-up now; null: none may be requested. */
export const topupCents = (state: AmountState, availableMicros: number, nowMs: number): number | null => {
  const { settings, method, open, pause, retryAtMs } = state
  if (settings === null || open !== null || pause !== null || nowMs < retryAtMs) return null
  if (method === null && !isByInvoice(settings)) return null
  const { thresholdCents, amountCents, targetBalanceCents, monthlyMaxCents } = settings
  if (availableMicros >= centsToMicros(thresholdCents)) return null
  const leftCents = monthlyMaxCents - takenCents(state, nowMs)
  if (amountCents !== null) return amountCents <= leftCents ? amountCents : null
  const missing = (targetBalanceCents ?? 0) - microsToCentsFloor(availableMicros)
  const wanted = Math.min(Math.max(missing, minTopupCents), maxDepositCents, leftCents)
  return wanted >= minTopupCents ? wanted : null
}

/** Whether a top-up would be requested without the maximum of the month. */
const isAtMaximum = (state: AmountState, availableMicros: number, nowMs: number): boolean =>
  topupCents(state, availableMicros, nowMs) === null &&
  topupCents({ ...state, month: '' }, availableMicros, nowMs) !== null

type RequestStates = {
  readonly topup: TopupState
  /** The deposit of the next top-up. */
  readonly deposit: DepositState
  readonly ledger: LedgerState
  readonly account: AccountState
}

/** The gateway of the saved card, or of the service's invoices. */
export type TopupGateway = {
  readonly rail: TopupMethod
  readonly gatewayId: string
  readonly provider: Provider
  readonly merchantName: string
}

const isGatewayOf = ({ settings, method }: TopupState, { rail, gatewayId }: TopupGateway): boolean =>
  isByInvoice(settings) ? rail === 'crypto' : method?.gatewayId === gatewayId

const opening = (
  account: AccountId,
  { topupId, depositId, amountCents }: Pick<OpenTopup, 'topupId' | 'depositId' | 'amountCents'>,
  gateway: TopupGateway,
) =>
  ({
    depositId,
    accountId: account,
    customerId: null,
    amountCents,
    ...gateway,
    fingerprint: requestDigest(['topup', topupId]),
    pending: null,
  }) as const

/**
 * Requests a top-up, with its deposit, if the streams still require one. The append fails if another request was
 * appended meanwhile, so there is never a second open one. If the maximum of the month is reached, this is recorded once
 * in the month.
 */
export const decideTopup = (
  states: RequestStates,
  account: AccountId,
  depositId: DepositId,
  gateway: TopupGateway,
  nowMs: number,
): CommandDecision<'requested' | 'paused' | 'not_needed'> => {
  const paused = decidePause(states, account, nowMs)
  if (paused.appends.length > 0) return { appends: paused.appends, answer: 'paused' }
  const { topup, deposit, ledger, account: owner } = states
  if (owner === null || owner.blocked || !isGatewayOf(topup, gateway))
    return { appends: [], answer: 'not_needed' }
  // A requested refund holds the missing money: the card would be charged for what is returned to it.
  if (ledger.holds.some((hold) => hold.depositId !== undefined)) return { appends: [], answer: 'not_needed' }
  if (topup.limitMonth !== monthOf(nowMs) && isAtMaximum(topup, ledger.availableMicros, nowMs))
    return { appends: [append(account, pausing(states, account, 'monthly_maximum'))], answer: 'paused' }
  const amountCents = topupCents(topup, ledger.availableMicros, nowMs)
  if (amountCents === null) return { appends: [], answer: 'not_needed' }
  // Another request was decided meanwhile.
  if (depositId !== nextDepositId(account, topup)) return { appends: [], answer: 'not_needed' }
  const topupId = topupIdOf(account, topup.requests + 1)
  const data = { accountId: account, topupId, depositId, amountCents }
  const opened = decideOpen(deposit, opening(account, data, gateway), nowMs)
  return {
    appends: [append(account, { type: 'TopupRequested', data }), ...opened.appends],
    answer: 'requested',
  }
}

/** Opens the deposit of a top-up if the log lost the end of its request. */
export const decideTopupDeposit = (
  deposit: DepositState,
  account: AccountId,
  open: OpenTopup,
  gateway: TopupGateway,
  nowMs: number,
): CommandDecision<null> => ({
  appends: decideOpen(deposit, opening(account, open, gateway), nowMs).appends,
  answer: null,
})

/** Ends a top-up whose deposit is credited. */
export const decideTopupPaid = (
  topup: TopupState,
  account: AccountId,
  topupId: string,
): CommandDecision<null> => ({
  appends:
    topup.open?.topupId === topupId
      ? [append(account, { type: 'TopupPaid', data: { accountId: account, topupId } })]
      : [],
  answer: null,
})

/** Ends a top-up that was not paid, and turns automatic top-up off after the last allowed failure. */
export const decideTopupFailure = (
  { topup, deposit }: { readonly topup: TopupState; readonly deposit: DepositState },
  account: AccountId,
  { topupId, reason }: { readonly topupId: string; readonly reason: TopupFailureReason },
  nowMs: number,
): CommandDecision<null> => {
  const { open, settings } = topup
  if (open?.topupId !== topupId || (deposit !== null && deposit.payments.size > 0))
    return { appends: [], answer: null }
  const failures = topup.failures + 1
  const events: TopupEvent[] = [
    {
      type: 'TopupFailed',
      data: { accountId: account, topupId, amountCents: open.amountCents, reason, failures },
    },
  ]
  if (failures >= maxFailures && settings !== null)
    events.push({ type: 'TopupTurnedOff', data: { accountId: account, reason: 'failures' } })
  return {
    appends: [append(account, ...events), ...decideFailure(deposit, 'payment_failed', nowMs).appends],
    answer: null,
  }
}
