import { Map as ImmutableMap, List } from 'immutable'
import type { Fold } from '../../kernel/decider.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { joinJsonMembers } from '../../kernel/json-text.ts'
import { assertSafe } from '../../kernel/money.ts'
import {
  emptyRemembered,
  type Remembered,
  type RememberedJson,
  rememberedCount,
  rememberedFromJson,
  rememberedText,
} from '../../kernel/recent-ids.ts'
import type { CapCovers } from '../../kernel/scopes.ts'
import { ledgerStream } from '../../kernel/streams.ts'
import type { ReversalReason } from '../payments/payments.ts'
import type { OrderDetails } from '../shared/order-terms.ts'
import { isTakenBack } from './adjustment-reasons.ts'
import type { CustomerEvent, HeldFor, LedgerEvent } from './events.ts'
import {
  customerMovementOf,
  emptyPurse,
  type Movements,
  movementOf,
  movementsAfter,
  type Purse,
} from './movements.ts'

/**
 * What each key spent, in one-minute buckets. A bucket counts until all of it is older than 24 hours, so the
 * cap is never exceeded and spending counts at most one minute too long. Refunds do not reduce it.
 */
export type Spend = {
  readonly windows: ImmutableMap<string, SpendWindow>
  /** The buckets of all keys in the order in which they were opened. They are dropped in that order. */
  readonly queue: List<{ readonly keyId: string; readonly minute: number }>
}

type Bucket = { readonly minute: number; readonly micros: number }
type SpendWindow = { readonly totalMicros: number; readonly buckets: List<Bucket> }

export const emptySpend = (): Spend => ({ windows: ImmutableMap(), queue: List() })

type Snapshot = Purse & {
  readonly heldMicros: number
  readonly holds: readonly (readonly [string, OpenHold])[]
  readonly movements: Movements extends Remembered<infer Value> ? RememberedJson<Value> : never
  readonly spend: SpendJson
  readonly callSpend: SpendJson
  readonly customers: readonly (readonly [string, Purse])[]
  readonly lastReversal: LedgerState['lastReversal']
}

const toText = (state: LedgerState): string =>
  joinJsonMembers(
    {
      availableMicros: state.availableMicros,
      heldMicros: state.heldMicros,
      receivableMicros: state.receivableMicros,
      holds: state.holds.sortBy((_, holdId) => holdId).toArray(),
      spend: spendToJson(state.spend),
      callSpend: spendToJson(state.callSpend),
      customers: state.customers.sortBy((_, customerId) => customerId).toArray(),
      lastReversal: state.lastReversal,
    },
    { movements: rememberedText(state.movements) },
  )

const fromJson = (snapshot: Snapshot): LedgerState => ({
  ...snapshot,
  holds: ImmutableMap(snapshot.holds),
  movements: rememberedFromJson(snapshot.movements),
  spend: spendFromJson(snapshot.spend),
  callSpend: spendFromJson(snapshot.callSpend),
  customers: ImmutableMap(snapshot.customers),
})

const ledgerSnapshot: NonNullable<Fold<LedgerState>['snapshot']> = {
  toText,
  fromText: (text) => fromJson(JSON.parse(text)),
  agrees: ({ availableMicros }, event) =>
    (event as LedgerEvent).data.availableAfterMicros === availableMicros,
  entries: (state) =>
    state.holds.size +
    rememberedCount(state.movements) +
    state.spend.queue.size +
    state.callSpend.queue.size +
    state.customers.size,
}

type OpenHold = HeldFor & { readonly amountMicros: number }

/** A wallet, which is itself a purse, and the purses of its customers (docs/architecture.md, "Invariants"). */
export type LedgerState = Purse & {
  /** The sum of the open holds. */
  readonly heldMicros: number
  readonly holds: ImmutableMap<string, OpenHold>
  /** The recent movements of the wallet and of its customers' credit. */
  readonly movements: Movements
  /** What keys spent on orders. */
  readonly spend: Spend
  /** What keys spent on scraper calls, since they were billed. */
  readonly callSpend: Spend
  /** By customer id: the reseller's customers who have had any money. */
  readonly customers: ImmutableMap<string, Purse>
  /** The last refund or dispute that took money from the wallet, and how many there were. */
  readonly lastReversal: { readonly number: number; readonly reason: ReversalReason } | null
}

/** A customer's credit and debt with its reseller. */
export const customerPurse = ({ customers }: Pick<LedgerState, 'customers'>, customerId: string): Purse =>
  customers.get(customerId) ?? emptyPurse

const emptyLedger: LedgerState = {
  ...emptyPurse,
  heldMicros: 0,
  holds: ImmutableMap(),
  movements: emptyRemembered(),
  spend: emptySpend(),
  callSpend: emptySpend(),
  customers: ImmutableMap(),
  lastReversal: null,
}

const notNegative = (value: number, what: string): number => {
  if (assertSafe(value, what) < 0) throw new RangeError(`${what} would be ${value}`)
  return value
}

/**
 * A purse after an event. `recordedMicros` is the available amount after it, according to the event.
 * @throws if the event's figures do not add up
 */
const purseAfter = (
  purse: Purse,
  movement: Purse,
  recordedMicros: number,
  event: LedgerEvent & { readonly revision: number },
  ownerText: string,
): Purse => {
  const availableMicros = notNegative(
    purse.availableMicros + movement.availableMicros,
    `what is available ${ownerText}`,
  )
  if (availableMicros !== recordedMicros)
    throw new Error(
      `${event.type} at revision ${event.revision} says ${recordedMicros} micro-dollars are left ${ownerText}, the fold says ${availableMicros}`,
    )
  const receivableMicros = notNegative(
    purse.receivableMicros + movement.receivableMicros,
    `what is owed ${ownerText}`,
  )
  return { availableMicros, receivableMicros }
}

const customersAfter = (
  before: LedgerState,
  event: CustomerEvent & { readonly revision: number },
): LedgerState['customers'] => {
  const { customerId, creditAfterMicros } = event.data
  const purse = customerPurse(before, customerId)
  const after = purseAfter(
    purse,
    customerMovementOf(event),
    creditAfterMicros,
    event,
    "of the customer's credit",
  )
  return before.customers.set(customerId, after)
}

const spendAfter = ({ spend }: LedgerState, order: OrderDetails, micros: number, atMs: number): Spend => {
  const keyId = capKeyOf(order)
  return keyId === null ? spend : recordSpend(spend, keyId, micros, atMs)
}

const evolve: Fold<LedgerState, LedgerEvent>['evolve'] = (before, event) => {
  const atMs = event.recordedAtMs
  const movement = movementOf(event)
  const { availableMicros, receivableMicros } = purseAfter(
    before,
    movement,
    event.data.availableAfterMicros,
    event,
    'in the wallet',
  )
  const state: LedgerState = {
    availableMicros,
    receivableMicros,
    heldMicros: notNegative(before.heldMicros + movement.heldMicros, 'the sum of holds'),
    holds: before.holds,
    movements: movementsAfter(before.movements, event),
    spend: dropExpiredSpend(before.spend, atMs),
    callSpend: dropExpiredSpend(before.callSpend, atMs),
    customers: before.customers,
    lastReversal: before.lastReversal,
  }
  switch (event.type) {
    case 'WalletCredited':
      return state
    case 'WalletAdjusted': {
      const { data } = event
      if (!isTakenBack(data)) return state
      const number = (state.lastReversal?.number ?? 0) + 1
      return { ...state, lastReversal: { number, reason: data.reason } }
    }
    case 'WalletDebited': {
      const { order, amountMicros } = event.data
      return { ...state, spend: spendAfter(state, order, amountMicros, atMs) }
    }
    case 'FundsHeld': {
      const { holdId, keyId: _, keyCap: __, availableAfterMicros: ___, ...hold } = event.data
      if (state.holds.has(holdId)) throw new Error(`hold ${holdId} was opened twice`)
      return { ...state, holds: state.holds.set(holdId, hold) }
    }
    case 'HoldCaptured':
    case 'HoldReleased': {
      const { holdId, amountMicros } = event.data
      if (state.holds.get(holdId)?.amountMicros !== amountMicros)
        throw new Error(`${event.type} does not match an open hold ${holdId}`)
      const holds = state.holds.delete(holdId)
      const { capKeyId } = event.data
      return event.type === 'HoldCaptured' && capKeyId !== undefined
        ? { ...state, holds, callSpend: recordSpend(state.callSpend, capKeyId, amountMicros, atMs) }
        : { ...state, holds }
    }
    case 'CustomerCharged': {
      const { order, costMicros } = event.data
      const customers = customersAfter(state, event)
      return { ...state, customers, spend: spendAfter(state, order, costMicros, atMs) }
    }
    case 'CustomerCredited':
    case 'CustomerRefunded':
    case 'CustomerAdjusted':
      return { ...state, customers: customersAfter(state, event) }
    default: {
      const unknown: never = event
      throw new Error(`unknown ledger event ${JSON.stringify(unknown)}`)
    }
  }
}

/**
 * The wallet of a `ledger-{account}` stream. `evolve` throws on events that no decision can have produced: a negative
 * balance, a figure that does not add up, a repeated id. Nothing may be decided on such a wallet.
 */
export const ledgerFold: Fold<LedgerState, LedgerEvent> = {
  name: 'ledger',
  version: 6,
  initial: emptyLedger,
  evolve,
  snapshot: ledgerSnapshot,
}

/** The stream reference of an account's ledger for a command. */
export const ledgerRef = (account: AccountId) => ({ stream: ledgerStream(account), fold: ledgerFold })

const minuteMs = 60_000
const windowMs = 24 * 60 * minuteMs
/** A debit opens at most one bucket, so dropping two per event limits both the work and the stored buckets. */
const droppedPerEvent = 2

const isPast = (minute: number, nowMs: number): boolean => (minute + 1) * minuteMs <= nowMs - windowMs

/** The key whose cap an order or a call counts against. Rolled keys count together. Null for an order without a key. */
export const capKeyOf = ({
  keyId,
  capKeyId,
}: {
  readonly keyId: string | null
  readonly capKeyId?: string | undefined
}): string | null => capKeyId ?? keyId

/**
 * Counts a debit of `micros` micro-dollars. Times never decrease within a stream. An earlier time would count in the
 * newest bucket.
 */
export const recordSpend = (spend: Spend, keyId: string, micros: number, atMs: number): Spend => {
  const minute = Math.floor(atMs / minuteMs)
  const window = spend.windows.get(keyId) ?? { totalMicros: 0, buckets: List() }
  const last = window.buckets.last()
  const isSameMinute = last !== undefined && last.minute >= minute
  const buckets = isSameMinute
    ? window.buckets.set(-1, { minute: last.minute, micros: last.micros + micros })
    : window.buckets.push({ minute, micros })
  return {
    windows: spend.windows.set(keyId, { totalMicros: window.totalMicros + micros, buckets }),
    queue: isSameMinute ? spend.queue : spend.queue.push({ keyId, minute }),
  }
}

/**
 * Drops at most two of the oldest buckets that no longer count.
 * @throws if the buckets do not match their queue
 */
export const dropExpiredSpend = (spend: Spend, nowMs: number): Spend => {
  let { windows, queue } = spend
  for (let dropped = 0; dropped < droppedPerEvent; dropped += 1) {
    const oldest = queue.first()
    if (!oldest || !isPast(oldest.minute, nowMs)) break
    const window = windows.get(oldest.keyId)
    const bucket = window?.buckets.first()
    if (!window || bucket?.minute !== oldest.minute)
      throw new Error(`the spend buckets of ${oldest.keyId} are out of step with their queue`)
    windows =
      window.buckets.size === 1
        ? windows.delete(oldest.keyId)
        : windows.set(oldest.keyId, {
            totalMicros: window.totalMicros - bucket.micros,
            buckets: window.buckets.shift(),
          })
    queue = queue.shift()
  }
  return queue === spend.queue ? spend : { windows, queue }
}

/** What the key spent in the 24 hours before `nowMs`, micro-dollars. The period is extended to whole minutes. */
export const spentMicros = (spend: Spend, keyId: string, nowMs: number): number => {
  const window = spend.windows.get(keyId)
  if (!window) return 0
  let spent = window.totalMicros
  for (const bucket of window.buckets) {
    if (!isPast(bucket.minute, nowMs)) break
    spent -= bucket.micros
  }
  return spent
}

/** What counts against a cap with this coverage, micro-dollars. A call counts while its price is held, and once billed. */
export const cappedSpendMicros = (
  { spend, callSpend, holds }: LedgerState,
  capKeyId: string,
  covers: CapCovers,
  nowMs: number,
): number => {
  const ordersMicros = spentMicros(spend, capKeyId, nowMs)
  if (covers === 'orders') return ordersMicros
  const heldMicros = holds.reduce(
    (sum, hold) => sum + (hold.capKeyId === capKeyId ? hold.amountMicros : 0),
    0,
  )
  return ordersMicros + spentMicros(callSpend, capKeyId, nowMs) + heldMicros
}

/** Every bucket in the order of the queue. */
type SpendJson = readonly (readonly [keyId: string, minute: number, micros: number])[]

export const spendToJson = (spend: Spend): SpendJson => {
  const remainingBuckets = new Map(spend.windows.map(({ buckets }) => buckets.values()).entries())
  return spend.queue.toArray().map(({ keyId, minute }) => {
    const bucket = remainingBuckets.get(keyId)?.next().value
    if (bucket?.minute !== minute)
      throw new Error(`the spend buckets of ${keyId} are out of step with their queue`)
    return [keyId, minute, bucket.micros] as const
  })
}

export const spendFromJson = (json: SpendJson): Spend =>
  json.reduce(
    (spend, [keyId, minute, micros]) => recordSpend(spend, keyId, micros, minute * minuteMs),
    emptySpend(),
  )
