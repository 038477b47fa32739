import { readFileSync } from 'node:fs'
import { parseCatalog } from '../src/domain/catalog/catalog-file.ts'
import type { CatalogImported } from '../src/domain/catalog/events.ts'
import { quote, type Sale, saleOf } from '../src/domain/catalog/pricing.ts'
import { manualStream } from '../src/domain/ledger/decide-manual.ts'
import type { OrderDetails } from '../src/domain/shared/order-terms.ts'
import type { AddressesReleased } from '../src/domain/stock/events.ts'
import type { DomainEvent, EventMetadata } from '../src/kernel/event.ts'
import {
  type AccountId,
  heldPlanId,
  type KeyId,
  newEventId,
  newId,
  orderIdOf,
  proxyIdOf,
} from '../src/kernel/ids.ts'
import type { StreamName } from '../src/kernel/streams.ts'
import {
  accountStream,
  addressStream,
  catalogStream,
  ledgerStream,
  orderStream,
  planStream,
  stockStream,
} from '../src/kernel/streams.ts'
import { type ProgressBar, stepsOf } from '../src/platform/cli/progress-bar.ts'
import { createCodec } from '../src/platform/eventstore/codec.ts'
import type { AppendItem, EventLog } from '../src/platform/eventstore/port.ts'

const codec = createCodec()
const accounts = 1000
/** What each account is credited before its first order. */
const openingMicros = 9e14
const startMs = Date.parse('2025-11-21T00:00:00.000Z')
/** The orders are spread over this time, so that most rentals have ended by then. */
const spreadMs = 330 * 86_400_000
const eventsPerOrder = 4
const periodMs = 30 * 86_400_000
const digest = 'c0ffee'.repeat(10)

const parsed = parseCatalog(readFileSync(new URL('../src/app/demo/catalog.json', import.meta.url), 'utf8'))
if (!parsed.ok) throw new Error('the catalogue of the demo is refused')
const since = new Date(startMs).toISOString()
const imported: CatalogImported = {
  type: 'CatalogImported',
  data: {
    digest: parsed.file.digest,
    importedAt: since,
    products: parsed.file.products.map((product) => ({ ...product, since })),
  },
}
const usa = { country: 'USA', periodDays: 30, carrierId: null, service: null, rotationMinutes: null }

/** The fields of an order that depend on the product. */
const saleBy = (productId: string, quantity: number, wanted: typeof usa | null): Sale => {
  const product = imported.data.products.find(({ id }) => id === productId)
  if (product === undefined) throw new Error(`the catalogue of the demo has no ${productId}`)
  const quoted = quote(product, { quantity, rateRequest: wanted, terms: null })
  if (!quoted.ok) throw new Error(quoted.refusal.message)
  return saleOf(product, quoted.value, { terms: null, isForCustomer: false })
}
const sales = {
  rents: saleBy('isp-static', 2, usa),
  tops: saleBy('residential-premium', 5, null),
}

type Shop = {
  /**
   * One order: three of four top a plan up; one rents two addresses, which are stocked first. Before that, rentals that are
   * over end.
   */
  nextOrder(): AppendItem
}

/** @param stepMs from one order to the next */
const createShop = (stepMs: number): Shop => {
  const revisions = new Map<StreamName, number>()
  const available = new Map<AccountId, number>()
  const plans = new Set<string>()
  const running: {
    readonly expiresAtMs: number
    readonly releases: AddressesReleased['data']['releases']
  }[] = []
  let count = 0

  const ended = (nowMs: number): DomainEvent[] => {
    const next = running.findIndex(({ expiresAtMs }) => expiresAtMs > nowMs)
    const over = running.splice(0, next === -1 ? running.length : next)
    if (over.length === 0) return []
    const releases = over.flatMap((rental) => rental.releases)
    const releasedAt = new Date(nowMs).toISOString()
    const availableFrom = new Date(nowMs + 900_000).toISOString()
    return [{ type: 'AddressesReleased', data: { reason: 'expired', releases, releasedAt, availableFrom } }]
  }

  const append = (metadata: EventMetadata, stream: StreamName, events: readonly DomainEvent[]) => {
    const last = revisions.get(stream)
    revisions.set(stream, (last ?? -1) + events.length)
    return {
      stream,
      expected: last ?? ('noStream' as const),
      events: events.map((event) => ({ id: newEventId(), ...codec.encode(event, metadata) })),
    }
  }

  const nextOrder = (): AppendItem => {
    const n = count
    count += 1
    const accountId = `acc_${String(n % accounts).padStart(32, '0')}` as AccountId
    const keyId = `key_${String(n % accounts).padStart(32, '0')}` as KeyId
    const orderId = orderIdOf(accountId, `bench-${n}`)
    const nowMs = startMs + n * stepMs
    const at = new Date(nowMs).toISOString()
    const metadata: EventMetadata = {
      correlationId: newId('req'),
      causationId: null,
      actor: { kind: 'key', accountId, keyId },
      recordedAt: at,
    }
    const byOperator: EventMetadata = { ...metadata, actor: { kind: 'operator', name: 'bench' } }
    const rents = n % 4 === 3
    const planId = rents ? null : heldPlanId(accountId, null, 'residential-premium', 1)
    const sale = rents ? sales.rents : sales.tops
    const amountMicros = sale.amountCents * 10_000
    const order: OrderDetails = {
      orderId,
      accountId,
      keyId,
      customerId: null,
      kind: 'order',
      ...sale,
      planId,
      proxyIds: [],
      method: 'wallet',
      catalogDigest: imported.data.digest,
      fingerprint: digest,
      createdAt: at,
    }
    const fresh = !available.has(accountId)
    const availableAfterMicros = (available.get(accountId) ?? openingMicros) - amountMicros
    available.set(accountId, availableAfterMicros)
    const bare = { city: 'Dallas', asn: 7922, asnOrg: 'Example', carrierId: null, service: null }
    const allocations = [0, 1].map((part) => {
      const ip = `10.${(n >> 15) & 255}.${(n >> 7) & 255}.${(n & 127) * 2 + part}`
      return { ip, ...bare, proxyId: proxyIdOf(orderId, ip), rotationMinutes: null }
    })
    const rental = {
      orderId,
      accountId,
      customerId: null,
      productId: order.productId,
      family: order.family,
      country: 'USA',
      periodDays: 30,
      allocations,
      allocatedAt: at,
      expiresAt: new Date(nowMs + periodMs).toISOString(),
    }
    const activation = {
      planId,
      orderId,
      accountId,
      customerId: null,
      productId: order.productId,
      shape: 'gateway_gb',
      renewal: 'topup',
      bytes: order.bytes,
      speedUnits: null,
      startedAt: at,
      expiresAt: null,
    }
    const fulfilment = (): DomainEvent => {
      if (planId === null) return { type: 'AddressesAllocated', data: rental }
      if (plans.has(planId)) return { type: 'PlanToppedUp', data: { orderId, bytes: order.bytes } }
      plans.add(planId)
      return { type: 'PlanActivated', data: activation }
    }
    const debit = { order, amountMicros, availableAfterMicros }
    const proxyIds = rents ? allocations.map(({ proxyId }) => proxyId) : []
    const balanceCents = Math.floor(availableAfterMicros / 10_000)
    const allocationOwner = planId === null ? stockStream('isp-static', 'USA') : planStream(planId)
    const credit: DomainEvent = {
      type: 'WalletCredited',
      data: {
        ...{
          source: 'manual',
          reference: 'bench',
          gateway: 'manual',
          depositId: null,
          orderId: null,
          family: null,
        },
        ...{ amountMicros: openingMicros, debtChangeMicros: 0, availableAfterMicros: openingMicros },
      },
    }
    const place = { productId: 'isp-static', country: 'USA' }
    const addresses = rents ? allocations.map(({ ip }) => ({ ip, ...bare })) : []
    const over = rents ? ended(nowMs) : []
    if (rents)
      running.push({
        expiresAtMs: nowMs + periodMs,
        releases: allocations.map(({ ip, proxyId }) => ({ proxyId, ip, carrierId: null, service: null })),
      })
    const stocked: DomainEvent = { type: 'AddressesStocked', data: { ...place, addresses } }
    const opening = { kind: 'credit', accountId, reference: 'bench', amountMicros: openingMicros } as const
    const issued = { keyId, scopes: ['buy'], dailyCapCents: null, displayPrefix: 'fbx_benc' }
    return {
      appends: [
        ...(n === 0 ? [append(byOperator, catalogStream, [imported])] : []),
        ...(fresh
          ? [
              append(byOperator, accountStream(accountId), [
                { type: 'AccountCreated', data: { accountId, reseller: false } },
                { type: 'KeyIssued', data: issued },
              ]),
              append(byOperator, manualStream(opening), [{ type: 'ManualMovementRecorded', data: opening }]),
            ]
          : []),
        ...addresses.map(({ ip }) =>
          append(byOperator, addressStream(ip), [{ type: 'AddressStocked', data: { ip, ...place } }]),
        ),
        append(metadata, ledgerStream(accountId), [
          ...(fresh ? [credit] : []),
          { type: 'WalletDebited', data: debit },
        ]),
        ...(fresh
          ? [
              append(byOperator, manualStream(opening), [
                { type: 'ManualMovementApplied', data: { accountId, reference: 'bench' } },
              ]),
            ]
          : []),
        append(metadata, allocationOwner, [...over, ...(rents ? [stocked] : []), fulfilment()]),
        append(metadata, orderStream(orderId), [
          { type: 'OrderCompleted', data: { order, balanceCents, proxyIds, fulfilledAt: at } },
        ]),
      ],
    }
  }
  return { nextOrder }
}

/** Orders of one call touch streams of one another, so each call writes accounts and stock once. */
const fold = (items: readonly AppendItem[]): AppendItem => ({
  appends: items.flatMap(({ appends }) => appends),
})

const eventsOf = ({ appends }: AppendItem): number =>
  appends.reduce((sum, { events }) => sum + events.length, 0)

/**
 * A log that grows by orders of a shop that satisfy every invariant.
 * @param events how many it will have about; its orders are spread over eleven months
 */
export const createHistory = (log: EventLog, events: number) => {
  const shop = createShop(Math.max(1, Math.floor((spreadMs * eventsPerOrder) / events)))
  const ordersAtOnce = 50
  let written = 0
  return {
    /** Writes on until the log holds about this many events. */
    async until(events: number, onWritten: (written: number) => void = () => undefined): Promise<void> {
      while (written < events) {
        const item = fold(Array.from({ length: ordersAtOnce }, shop.nextOrder))
        const [outcome] = await log.appendAll([item])
        if (outcome?.status !== 'landed') throw new Error(`an append of the history ended ${outcome?.status}`)
        written += eventsOf(item)
        onWritten(written)
      }
    },
  }
}

/** Fills a log with orders of a shop until it holds about this many events; the milliseconds that it took. */
export const appendHistory = async (log: EventLog, events: number, bar: ProgressBar): Promise<number> => {
  const startedMs = performance.now()
  const step = stepsOf(bar, 'writing a history', events)
  await createHistory(log, events).until(events, (written) => step(written, written))
  bar.end()
  return performance.now() - startedMs
}
