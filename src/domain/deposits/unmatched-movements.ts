import type { Appends, CommandDecision, Fold, Refused, StreamRef } from '../../kernel/decider.ts'
import { refused } from '../../kernel/decider.ts'
import { defineEvent, type EventOf } from '../../kernel/event.ts'
import { id, micros, oneOf, orNull, pastTime, text, time } from '../../kernel/event-fields.ts'
import { deriveId } from '../../kernel/ids.ts'
import { unmatchedStream } from '../../kernel/streams.ts'
import { decideManual, type ManualAnswer, type ManualStates } from '../ledger/decide-manual.ts'
import type { ManualMovement } from '../ledger/manual-movements.ts'
import { type Provider, providers, type ReversalReason, reversalReasons } from '../payments/payments.ts'

/** An `unmatched-{item}` stream. */
const stream = 'unmatched-{item}'
const itemId = id('umv', 'the open item')

export const unmatchedMovementReported = defineEvent('UnmatchedMovementReported', {
  stream,
  means:
    "A refund or a dispute at one of the service's gateways moved money, and no deposit is known for it, or an object there cannot be read: an operator must resolve it. No wallet changed.",
  fields: {
    itemId,
    gateway: oneOf(providers, 'the gateway in the books'),
    reason: orNull(oneOf(reversalReasons, 'the kind of movement; null: the object cannot be read')),
    reference: text(
      "the movement's name in the books: the provider with the ids of the refund or dispute and of its balance transaction",
    ),
    currency: orNull(text('lower case ISO 4217; null: the object cannot be read')),
    amountMicros: orNull(
      micros(
        'either sign',
        'micro-units of the currency; negative: it left the balance; null: the object cannot be read',
      ),
    ),
    happenedAt: orNull(time('the time at the provider; null: the object cannot be read')),
  },
})
export type UnmatchedMovement = EventOf<typeof unmatchedMovementReported>['data']

/** A movement whose object was read. */
type ReadMovement = UnmatchedMovement & {
  readonly reason: ReversalReason
  readonly currency: string
  readonly amountMicros: number
}

export const isRead = (movement: UnmatchedMovement): movement is ReadMovement =>
  movement.reason !== null && movement.currency !== null && movement.amountMicros !== null

/** The open item of an object that cannot be read. @param id its id at the provider */
export const unreadableItem = (gateway: Provider, id: string): UnmatchedMovement => {
  const named = { gateway, reference: `${gateway} ${id}` }
  const unknown = { reason: null, currency: null, amountMicros: null, happenedAt: null }
  return { itemId: unmatchedIdOf(named), ...named, ...unknown }
}

export const unmatchedMovementResolved = defineEvent('UnmatchedMovementResolved', {
  stream,
  means:
    'An operator resolved the open item. If it was booked to an account, the booking precedes this event.',
  fields: {
    itemId,
    reference: text('as reported'),
    accountId: orNull(id('acc', 'the account that it was booked to; null: to none')),
    note: text("the operator's reason"),
    resolvedAt: pastTime('when'),
  },
})

export const unmatchedEventDefinitions = [unmatchedMovementReported, unmatchedMovementResolved] as const
export type UnmatchedEvent = EventOf<(typeof unmatchedEventDefinitions)[number]>

/** The id of the item of a movement. Its name is unique at the provider. */
export const unmatchedIdOf = ({
  gateway,
  reference,
}: Pick<UnmatchedMovement, 'gateway' | 'reference'>): string => deriveId('umv', [gateway, reference])

/** Null before it was reported. */
export type UnmatchedState = {
  readonly movement: UnmatchedMovement
  readonly resolved: { readonly accountId: string | null } | null
} | null

const unmatchedFold: Fold<UnmatchedState, UnmatchedEvent> = {
  name: 'unmatched-movement',
  version: 1,
  initial: null,
  evolve: (state, event) => {
    if (event.type === 'UnmatchedMovementReported') return { movement: event.data, resolved: null }
    if (!state) throw new Error(`${event.type} on an item that was never reported`)
    return { ...state, resolved: { accountId: event.data.accountId } }
  },
}

export const unmatchedRef = (itemId: string): StreamRef<UnmatchedState> => ({
  stream: unmatchedStream(itemId),
  fold: unmatchedFold,
})

/** Reports a movement once. */
export const decideUnmatched = (
  item: UnmatchedState,
  movement: UnmatchedMovement,
): CommandDecision<'reported' | 'reported_before'> => {
  if (item !== null) return { appends: [], answer: 'reported_before' }
  const event: UnmatchedEvent = { type: 'UnmatchedMovementReported', data: movement }
  return { appends: [{ stream: unmatchedStream(movement.itemId), events: [event] }], answer: 'reported' }
}

export type ResolutionRefusal =
  | { readonly code: 'unknown_item' }
  | { readonly code: 'resolved_before'; readonly accountId: string | null }
  /** Wallets are in dollars. */
  | { readonly code: 'other_currency'; readonly currency: string }
  /** Its amount is not known. */
  | { readonly code: 'unreadable' }
export type ResolutionAnswer =
  | { readonly outcome: 'resolved'; readonly accountId: string | null }
  | Refused<ResolutionRefusal>
  | Extract<ManualAnswer, { readonly outcome: 'refused' }>

/** The movement of the wallet that books an item. */
export const bookingOf = (
  { gateway, reason, reference, amountMicros }: ReadMovement,
  accountId: string,
): ManualMovement => ({ kind: 'adjustment', accountId, reference, reason, gateway, amountMicros })

const resolution = (
  { itemId, reference }: UnmatchedMovement,
  accountId: string | null,
  note: string,
  resolvedAt: string,
): Appends[number] => {
  const event: UnmatchedEvent = {
    type: 'UnmatchedMovementResolved',
    data: { itemId, reference, accountId, note, resolvedAt },
  }
  return { stream: unmatchedStream(itemId), events: [event] }
}

const resolutionRefusal = (item: UnmatchedState, accountId: string | null): ResolutionRefusal | null => {
  if (item === null) return { code: 'unknown_item' }
  if (item.resolved !== null) return { code: 'resolved_before', ...item.resolved }
  if (accountId === null) return null
  if (!isRead(item.movement)) return { code: 'unreadable' }
  const { currency } = item.movement
  return currency === 'usd' ? null : { code: 'other_currency', currency }
}

/**
 * Resolves an item with a reason, without a booking.
 * @param resolvedAt ISO 8601 UTC
 */
export const decideResolution = (
  item: UnmatchedState,
  { note, resolvedAt }: { readonly note: string; readonly resolvedAt: string },
): CommandDecision<ResolutionAnswer> => {
  const refusal = resolutionRefusal(item, null)
  if (refusal !== null || item === null)
    return { appends: [], answer: refused(refusal ?? { code: 'unknown_item' }) }
  return {
    appends: [resolution(item.movement, null, note, resolvedAt)],
    answer: { outcome: 'resolved', accountId: null },
  }
}

/**
 * Books an item to the wallet of an account, and resolves it in the same decision. If the log lost the end of that,
 * another decision finishes it. A booking to a second account is refused, because the item is then resolved.
 */
export const decideBooking = (
  states: ManualStates & { readonly item: UnmatchedState },
  {
    accountId,
    note,
    resolvedAt,
  }: { readonly accountId: string; readonly note: string; readonly resolvedAt: string },
): CommandDecision<ResolutionAnswer> => {
  const { item } = states
  const refusal = resolutionRefusal(item, accountId)
  if (refusal !== null || item === null || !isRead(item.movement))
    return { appends: [], answer: refused(refusal ?? { code: 'unknown_item' }) }
  const { amountMicros } = item.movement
  const { appends, answer } = decideManual(states, bookingOf(item.movement, accountId))
  const isBookedBefore =
    answer.outcome === 'refused' &&
    answer.refusal.code === 'already_applied' &&
    answer.refusal.amountMicros === amountMicros
  if (answer.outcome === 'refused' && !isBookedBefore) return { appends, answer }
  return {
    appends: [...appends, resolution(item.movement, accountId, note, resolvedAt)],
    answer: { outcome: 'resolved', accountId },
  }
}
