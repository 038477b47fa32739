import { randomUUID } from 'node:crypto'
import type { CustomerAdjustmentReason } from '../../src/domain/ledger/adjustment-reasons.ts'
import {
  decideAdjustment,
  decideCapture,
  decideCredit,
  decideHold,
  decideRelease as decideHoldRelease,
} from '../../src/domain/ledger/decide.ts'
import { decideCustomerAdjustment, decideCustomerCredit } from '../../src/domain/ledger/decide-customer.ts'
import { ledgerFold } from '../../src/domain/ledger/fold.ts'
import {
  decideStatement,
  decideStatementCorrection,
  type StatementBooking,
  statementFold,
  streamOfLine,
} from '../../src/domain/ledger/statement-lines.ts'
import { allocationOwnerOf, decidePlacement } from '../../src/domain/orders/decide-placement.ts'
import { hasUnrefundedAmount } from '../../src/domain/orders/extended-rentals.ts'
import { orderFold } from '../../src/domain/orders/fold.ts'
import { decideRefund, type RefundRequest } from '../../src/domain/orders/refunds.ts'
import { decideCutOff } from '../../src/domain/periods/decide.ts'
import { periodFold } from '../../src/domain/periods/events.ts'
import { decideMetering } from '../../src/domain/plans/decide.ts'
import { planFold } from '../../src/domain/plans/fold.ts'
import type { OrderDetails } from '../../src/domain/shared/order-terms.ts'
import { decideExpiry } from '../../src/domain/stock/decide.ts'
import { stockFold } from '../../src/domain/stock/fold.ts'
import { utcCalendar } from '../../src/kernel/calendar.ts'
import type { Appends, Fold } from '../../src/kernel/decider.ts'
import type { DomainEvent } from '../../src/kernel/event.ts'
import type { AccountId, CustomerId, OrderId, PlanId, ProxyId } from '../../src/kernel/ids.ts'
import {
  ledgerStream,
  orderStream,
  periodStream,
  planStream,
  type StreamName,
  stockStream,
} from '../../src/kernel/streams.ts'
import { createCodec } from '../../src/platform/eventstore/codec.ts'
import type { EventLog } from '../../src/platform/eventstore/port.ts'
import { addressOrder, planOrder } from '../support/world.ts'

/** The test's description of received or spent money. */
type Known = {
  readonly reference: string
  readonly gateway: string
  readonly depositId: string
  readonly amountMicros: number
}

const codec = createCodec()
const dayMs = 86_400_000

/**
 * A shop that runs the real decisions, one at a time, on states that it folds itself: a log as the service
 * writes it, and the expected read tables.
 */
export const createShop = (log: EventLog, startMs: number) => {
  // biome-ignore lint/suspicious/noExplicitAny: states of many folds are in one map
  const states = new Map<StreamName, { fold: Fold<any, any>; state: unknown; revision: number }>()
  const orders = new Map<OrderId, OrderDetails>()
  let nowMs = startMs

  // biome-ignore lint/suspicious/noExplicitAny: a fold is handed only its own stream's events
  const stateOf = <State>(stream: StreamName, fold: Fold<State, any>): State => {
    const known = states.get(stream)
    if (known) return known.state as State
    states.set(stream, { fold, state: fold.initial, revision: -1 })
    return fold.initial
  }

  const append = async (appends: Appends): Promise<void> => {
    const correlationId = randomUUID()
    const metadata = {
      correlationId,
      causationId: null,
      actor: { kind: 'system', name: 'shop' } as const,
      recordedAt: new Date(nowMs).toISOString(),
    }
    const given = appends.filter(({ events }) => events.length > 0)
    if (given.length === 0) return
    const revisions = new Map<StreamName, number>()
    const items = given.map(({ stream, events }) => {
      const before = revisions.get(stream) ?? states.get(stream)?.revision ?? -1
      revisions.set(stream, before + events.length)
      return {
        stream,
        expected: before === -1 ? ('noStream' as const) : before,
        events: events.map((event: DomainEvent) => ({ id: randomUUID(), ...codec.encode(event, metadata) })),
      }
    })
    const [outcome] = await log.appendAll([{ appends: items }])
    if (outcome?.status !== 'landed') throw new Error(`an append ended ${outcome?.status}`)
    for (const { stream, events } of given) {
      const known = states.get(stream)
      if (!known) throw new Error(`${stream} has no fold`)
      for (const event of events) {
        known.revision += 1
        known.state = known.fold.evolve(known.state, {
          ...event,
          revision: known.revision,
          recordedAtMs: nowMs,
        })
      }
    }
  }

  const statesFor = (order: OrderDetails) => {
    const allocationOwner = allocationOwnerOf(order)
    return {
      ledger: stateOf(ledgerStream(order.accountId), ledgerFold),
      allocationOwner: stateOf(allocationOwner.stream, allocationOwner.fold),
      order: stateOf(orderStream(order.orderId), orderFold),
    }
  }

  const place = async (order: OrderDetails): Promise<boolean> => {
    const { createdAt: _, ...draft } = order
    const { appends, answer } = decidePlacement(statesFor(order), { draft, cap: null }, nowMs)
    await append(appends)
    if (answer.kind === 'placed') orders.set(order.orderId, answer.order.details)
    return answer.kind === 'placed'
  }

  const onLedger = async (
    account: AccountId,
    decide: (state: ReturnType<typeof ledger>) => { outcome: string; events?: readonly DomainEvent[] },
  ): Promise<void> => {
    const decision = decide(ledger(account))
    if (decision.outcome === 'decided')
      await append([{ stream: ledgerStream(account), events: decision.events ?? [] }])
  }
  const ledger = (account: AccountId) => stateOf(ledgerStream(account), ledgerFold)

  return {
    orders,
    ledger,
    order: (id: OrderId) => stateOf(orderStream(id), orderFold),
    plan: (id: PlanId) => stateOf(planStream(id), planFold),
    stock: () => stateOf(stockStream('isp-static', 'USA'), stockFold),
    now: () => nowMs,
    wait: (ms: number): void => {
      nowMs += ms
    },
    credit: (account: AccountId, cents: number) =>
      onLedger(account, (state) =>
        decideCredit(state, {
          source: 'manual',
          reference: randomUUID(),
          gateway: 'manual',
          depositId: `dep_${randomUUID()}`,
          orderId: null,
          family: null,
          amountMicros: cents * 10_000,
        }),
      ),
    /** Cents below 0 are a dispute that was won. */
    chargeBack: (account: AccountId, cents: number, known: Partial<Known> = {}) =>
      onLedger(account, (state) =>
        decideAdjustment(state, {
          reference: randomUUID(),
          reason: 'chargeback',
          gateway: 'card',
          amountMicros: -cents * 10_000,
          ...known,
        }),
      ),
    deposit: (account: AccountId, cents: number, known: Partial<Known> = {}) =>
      onLedger(account, (state) =>
        decideCredit(state, {
          source: 'deposit',
          reference: randomUUID(),
          gateway: 'service-stripe',
          depositId: `dep_${randomUUID()}`,
          orderId: null,
          family: null,
          amountMicros: cents * 10_000,
          ...known,
        }),
      ),
    adjust: (
      account: AccountId,
      reason: 'correction' | 'goodwill',
      micros: number,
      reference: string = randomUUID(),
    ) =>
      onLedger(account, (state) =>
        decideAdjustment(state, { reference, reason, gateway: null, amountMicros: micros }),
      ),
    /** A customer of a reseller pays the reseller's own gateway. */
    customerPays: (account: AccountId, customerId: CustomerId, cents: number, known: Partial<Known> = {}) =>
      onLedger(account, (state) =>
        decideCustomerCredit(state, {
          customerId,
          reference: randomUUID(),
          gateway: 'reseller-btcpay',
          depositId: `dep_${randomUUID()}`,
          amountMicros: cents * 10_000,
          ...known,
        }),
      ),
    adjustCustomer: (
      account: AccountId,
      customerId: CustomerId,
      reason: CustomerAdjustmentReason,
      micros: number,
    ) =>
      onLedger(account, (state) =>
        decideCustomerAdjustment(state, {
          customerId,
          reference: randomUUID(),
          reason,
          gateway: reason === 'chargeback' ? 'reseller-btcpay' : null,
          amountMicros: micros,
        }),
      ),
    /** A plan for a customer, at a price and at the reseller's cost. */
    sellPlan: (
      account: AccountId,
      customerId: CustomerId,
      id: OrderId,
      { amountCents, costCents }: { readonly amountCents: number; readonly costCents: number },
    ) => place(planOrder(id, { accountId: account, customerId, amountCents, costCents })),
    scrape: async (account: AccountId, micros: number, end: 'capture' | 'release' | 'leave') => {
      const hold = { holdId: randomUUID(), keyId: null, platform: 'tiktok', amountMicros: micros }
      await onLedger(account, (state) => decideHold(state, hold, null))
      if (end === 'leave') return
      await onLedger(account, (state) =>
        end === 'capture' ? decideCapture(state, hold) : decideHoldRelease(state, hold),
      )
    },
    stockUp: async (ips: readonly string[]) => {
      stateOf(stockStream('isp-static', 'USA'), stockFold)
      const bare = { city: 'Dallas', asn: 7922, asnOrg: null, carrierId: null, service: null }
      const addresses = ips.map((ip) => ({ ip, ...bare }))
      const data = { productId: 'isp-static', country: 'USA', addresses }
      await append([
        { stream: stockStream('isp-static', 'USA'), events: [{ type: 'AddressesStocked', data }] },
      ])
    },
    buyAddresses: (account: AccountId, id: OrderId, quantity: number) =>
      place(addressOrder(id, { accountId: account, quantity, amountCents: 250 * quantity })),
    extend: (account: AccountId, id: OrderId, proxyIds: readonly ProxyId[]) =>
      place(
        addressOrder(id, {
          accountId: account,
          kind: 'extension',
          proxyIds,
          quantity: proxyIds.length,
          amountCents: 250,
        }),
      ),
    buyPlan: (account: AccountId, id: OrderId, planId: PlanId) =>
      place(planOrder(id, { accountId: account, planId })),
    refund: async (id: OrderId, request: RefundRequest) => {
      const order = orders.get(id)
      const paid = new Map(
        [...orders.values()].map(
          (each) => [each.orderId, hasUnrefundedAmount(statesFor(each).order!)] as const,
        ),
      )
      if (order) await append(decideRefund(statesFor(order), randomUUID(), request, nowMs, paid).appends)
    },
    meter: async (planId: PlanId, bytes: number) => {
      const state = stateOf(planStream(planId), planFold)
      const usedBytes = (state.plan?.usedBytes ?? 0) + bytes
      const events = decideMetering(state, { usedBytes, anyway: true }, nowMs)
      await append([{ stream: planStream(planId), events }])
    },
    /** Books a fee and a payout that happened this long ago. */
    bookLine: async (
      line: Pick<StatementBooking, 'reference' | 'feeMicros' | 'payoutMicros'>,
      agoMs: number,
    ) => {
      const happenedAt = new Date(nowMs - agoMs).toISOString()
      const booking = {
        ...line,
        gateway: 'manual',
        category: 'fee',
        happenedAt,
        file: null,
        proposalId: null,
      }
      const stream = streamOfLine(booking)
      await append([{ stream, events: decideStatement(stateOf(stream, statementFold), booking).events }])
    },
    correctLine: async (reference: string, feeMicros: number) => {
      const stream = streamOfLine({ gateway: 'manual', reference })
      const line = stateOf(stream, statementFold)
      if (line === null) return
      const right = { feeMicros, reason: 'test', proposalId: null }
      await append([{ stream, events: decideStatementCorrection(line, right).events }])
    },
    /** Cuts off the month that is this long ago, if it is over and not cut off. */
    cutOff: async (agoMs: number) => {
      const period = utcCalendar.periodOf(nowMs - agoMs)
      const stream = periodStream(period)
      const state = stateOf(stream, periodFold)
      await append(decideCutOff(state, period, utcCalendar.endOfPeriodMs(period), nowMs).appends)
    },
    expireRentals: async () => {
      nowMs += 31 * dayMs
      const stock = stateOf(stockStream('isp-static', 'USA'), stockFold)
      const events = decideExpiry(stock, stock.rentals.keys(), nowMs)
      await append([{ stream: stockStream('isp-static', 'USA'), events }])
    },
  }
}

export type Shop = ReturnType<typeof createShop>
