import { decideCustomerCredit } from '../../src/domain/ledger/decide-customer.ts'
import type { LedgerState } from '../../src/domain/ledger/fold.ts'
import { ledgerFold } from '../../src/domain/ledger/fold.ts'
import { allocationOwnerOf } from '../../src/domain/orders/decide-placement.ts'
import { type OrderState, orderFold } from '../../src/domain/orders/fold.ts'
import type { OrderDetails } from '../../src/domain/shared/order-terms.ts'
import type { AddressesStocked, StockedAddress } from '../../src/domain/stock/events.ts'
import type { Appends, Fold } from '../../src/kernel/decider.ts'
import type { DomainEvent } from '../../src/kernel/event.ts'
import type { AccountId, CustomerId, KeyId, OrderId } from '../../src/kernel/ids.ts'
import { planIdOfOrder } from '../../src/kernel/ids.ts'
import type { StreamName } from '../../src/kernel/streams.ts'
import { ledgerStream, orderStream } from '../../src/kernel/streams.ts'

/** Streams as plain lists of facts, to try decisions without a log. */
export type World = ReadonlyMap<StreamName, readonly { event: DomainEvent; atMs: number }[]>

export const emptyWorld: World = new Map()

export const appendTo = (world: World, appends: Appends, atMs: number): World => {
  const next = new Map(world)
  for (const { stream, events } of appends)
    next.set(stream, [...(next.get(stream) ?? []), ...events.map((event) => ({ event, atMs }))])
  return next
}

// biome-ignore lint/suspicious/noExplicitAny: a fold is handed only its own stream's events
export const stateOf = <State>(world: World, stream: StreamName, fold: Fold<State, any>): State =>
  (world.get(stream) ?? []).reduce(
    (state, { event, atMs }, revision) => fold.evolve(state, { ...event, revision, recordedAtMs: atMs }),
    fold.initial,
  )

export const statesFor = (
  world: World,
  order: OrderDetails,
): { ledger: LedgerState; allocationOwner: unknown; order: OrderState } => {
  const allocationOwner = allocationOwnerOf(order)
  return {
    ledger: stateOf(world, ledgerStream(order.accountId), ledgerFold),
    allocationOwner: stateOf(world, allocationOwner.stream, allocationOwner.fold),
    order: stateOf(world, orderStream(order.orderId), orderFold),
  }
}

export const buyer = 'acc_buyer' as AccountId

/** A wallet order of two addresses in the USA for 30 days, $5.00; `over` has the test's changes. */
export const addressOrder = (orderId: string, over: Partial<OrderDetails> = {}): OrderDetails => ({
  orderId: orderId as OrderId,
  accountId: buyer,
  keyId: 'key_one' as KeyId,
  customerId: null,
  kind: 'order',
  productId: 'isp-static',
  family: 'isp',
  shape: 'addresses',
  delivery: 'addresses',
  renewal: 'extend',
  unit: 'IP',
  quantity: 2,
  target: { country: 'USA', periodDays: 30, carrierId: null, service: null, rotationMinutes: null },
  bytes: null,
  periodDays: null,
  planId: null,
  proxyIds: [],
  unitPriceCents: 250,
  amountCents: 500,
  listCents: 500,
  currency: 'USD',
  billingType: 'PAYG',
  method: 'wallet',
  catalogDigest: 'digest',
  fingerprint: 'fingerprint',
  createdAt: '2026-11-21T00:00:00.000Z',
  ...over,
})

/** A wallet order of 5 GB, $15.00, on a separate plan. */
export const planOrder = (orderId: string, over: Partial<OrderDetails> = {}): OrderDetails => ({
  ...addressOrder(orderId),
  productId: 'residential-premium',
  family: 'residential',
  shape: 'gateway_gb',
  delivery: 'lines',
  renewal: 'topup',
  unit: 'GB',
  quantity: 5,
  target: null,
  bytes: 5_000_000_000,
  planId: planIdOfOrder(orderId as OrderId),
  unitPriceCents: 300,
  amountCents: 1500,
  listCents: 1500,
  ...over,
})

export const credit = (world: World, cents: number, atMs: number): World => {
  const ledger = stateOf(world, ledgerStream(buyer), ledgerFold)
  const amountMicros = cents * 10_000
  return appendTo(
    world,
    [
      {
        stream: ledgerStream(buyer),
        events: [
          {
            type: 'WalletCredited',
            data: {
              source: 'manual',
              reference: `credit-${world.get(ledgerStream(buyer))?.length ?? 0}`,
              gateway: 'manual',
              depositId: null,
              orderId: null,
              family: null,
              amountMicros,
              receivableMicros: 0,
              availableAfterMicros: ledger.availableMicros + amountMicros,
            },
          },
        ],
      },
    ],
    atMs,
  )
}

export const customer = 'cus_alice' as CustomerId

/** The same order for the buyer's customer, who pays $6.50 for what costs the buyer $5.00. */
export const forCustomer = (order: OrderDetails, amountCents = 650, costCents = 500): OrderDetails => ({
  ...order,
  customerId: customer,
  amountCents,
  costCents,
})

export const customerCredit = (world: World, cents: number, atMs: number): World => {
  const stream = ledgerStream(buyer)
  const decision = decideCustomerCredit(stateOf(world, stream, ledgerFold), {
    customerId: customer,
    reference: `pi_${world.get(stream)?.length ?? 0}`,
    gateway: 'stripe',
    depositId: 'dep_1',
    amountMicros: cents * 10_000,
  })
  if (decision.outcome === 'refused') throw new Error('a customer was credited twice')
  return appendTo(world, [{ stream, events: decision.events }], atMs)
}

/** An address of which nothing is known and that is not mobile. */
export const plainAddress = (ip: string): StockedAddress => ({
  ip,
  city: null,
  asn: null,
  asnOrg: null,
  carrierId: null,
  service: null,
})

export const addressesStocked = (ips: readonly string[]): AddressesStocked => ({
  type: 'AddressesStocked',
  data: {
    productId: 'isp-static',
    country: 'USA',
    addresses: ips.map(plainAddress),
  },
})

export const stock = (world: World, ips: readonly string[], atMs: number): World =>
  appendTo(
    world,
    [{ stream: allocationOwnerOf(addressOrder('ord_any')).stream, events: [addressesStocked(ips)] }],
    atMs,
  )
