import { isDeepStrictEqual } from 'node:util'
import type {
  AddressesStocked,
  AddressStocked,
  EndpointsChanged,
  StockEvent,
  StockedAddress,
} from '../../domain/stock/events.ts'
import { type AddressState, addressFold, type StockState, stockFold } from '../../domain/stock/fold.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { CommandDecision, StreamRef } from '../../kernel/decider.ts'
import type { Cause } from '../../kernel/event.ts'
import type { ProxyId } from '../../kernel/ids.ts'
import { addressStream, stockStream } from '../../kernel/streams.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'

/** Addresses of one product in one country, checked by `parseStocking`. */
export type Stocking = {
  readonly productId: string
  readonly country: string
  readonly addresses: readonly StockedAddress[]
}

export type StockingReport = {
  readonly added: readonly string[]
  /** Addresses that were in this stock, and have a new endpoint now. */
  readonly changed: readonly string[]
  /** Ids of the former logins of the changed addresses. */
  readonly formerLogins: readonly string[]
  /** Addresses that were in this stock without a change: nothing was written for them. */
  readonly alreadyStocked: readonly string[]
  /** Addresses in the stock of another product or country: nothing was added for them. */
  readonly elsewhere: readonly { readonly ip: string; readonly productId: string; readonly country: string }[]
}

const emptyReport: StockingReport = {
  added: [],
  changed: [],
  formerLogins: [],
  alreadyStocked: [],
  elsewhere: [],
}

/** About 20 KiB of events and 101 streams per command: far below 1 MiB per append and one set-based read. */
const batchAddresses = 100

type AddressStates = ReadonlyMap<string, AddressState>

/** The addresses with a new endpoint. An address without an endpoint is not changed. */
const movedOf = (
  stock: StockState,
  addresses: readonly StockedAddress[],
): EndpointsChanged['data']['changes'] => {
  const endpointChanges = addresses.flatMap(({ ip, endpoint }) => {
    const before = stock.addresses.get(ip)
    return before && endpoint && !isDeepStrictEqual(before.endpoint, endpoint) ? [{ ip, endpoint }] : []
  })
  if (endpointChanges.length === 0) return []
  const rentals = new Map(stock.rentals.entrySeq().map(([proxyId, { ip }]) => [ip, proxyId as ProxyId]))
  return endpointChanges.map((each) => ({ ...each, proxyId: rentals.get(each.ip) ?? null }))
}

/**
 * Adds the addresses that are in no stock. Each address's own stream is written before the stock stream, so that two
 * products can never both have the address. After a crash between the two, the next run completes them.
 */
export const decideStocking = (
  states: { readonly stock: StockState; readonly addresses: AddressStates },
  { productId, country, addresses }: Stocking,
  nowMs: number,
): CommandDecision<StockingReport> => {
  const holderOf = (ip: string): AddressState => {
    const holder = states.addresses.get(ip) ?? null
    return holder?.retired ? null : holder
  }
  const isInThisStock = ({ ip }: StockedAddress): boolean => {
    const holder = holderOf(ip)
    return holder === null || (holder.productId === productId && holder.country === country)
  }
  const accepted = addresses.filter(isInThisStock)
  const claimed = accepted.filter(({ ip }) => holderOf(ip) === null)
  const newAddresses = accepted.filter(({ ip }) => !states.stock.addresses.has(ip))
  const stocked: AddressesStocked = {
    type: 'AddressesStocked',
    data: { productId, country, addresses: newAddresses },
  }
  const endpointChanges = movedOf(states.stock, accepted)
  const changed: EndpointsChanged = {
    type: 'EndpointsChanged',
    data: { changes: endpointChanges, changedAt: isoTime(nowMs) },
  }
  const stockEvents: readonly StockEvent[] = [
    ...(newAddresses.length > 0 ? [stocked] : []),
    ...(endpointChanges.length > 0 ? [changed] : []),
  ]
  const movedIps = new Set(endpointChanges.map(({ ip }) => ip))
  return {
    appends: [
      ...claimed.map(({ ip }) => {
        const event: AddressStocked = { type: 'AddressStocked', data: { ip, productId, country } }
        return { stream: addressStream(ip), events: [event], anyOrder: true as const }
      }),
      ...(stockEvents.length > 0 ? [{ stream: stockStream(productId, country), events: stockEvents }] : []),
    ],
    answer: {
      added: newAddresses.map(({ ip }) => ip),
      changed: [...movedIps],
      formerLogins: endpointChanges.flatMap(
        ({ ip }) => states.stock.addresses.get(ip)?.endpoint?.credentialId ?? [],
      ),
      alreadyStocked: accepted
        .filter((address) => !newAddresses.includes(address) && !movedIps.has(address.ip))
        .map(({ ip }) => ip),
      elsewhere: addresses.flatMap((address) => {
        const holder = holderOf(address.ip)
        return holder === null || isInThisStock(address)
          ? []
          : [{ ip: address.ip, productId: holder.productId, country: holder.country }]
      }),
    },
  }
}

const mergeReports = (a: StockingReport, b: StockingReport): StockingReport => ({
  added: [...a.added, ...b.added],
  changed: [...a.changed, ...b.changed],
  formerLogins: [...a.formerLogins, ...b.formerLogins],
  alreadyStocked: [...a.alreadyStocked, ...b.alreadyStocked],
  elsewhere: [...a.elsewhere, ...b.elsewhere],
})

const batchesOf = (stocking: Stocking): Stocking[] => {
  const byIp = new Map(stocking.addresses.map((address) => [address.ip, address]))
  const addresses = [...byIp.values()]
  return Array.from({ length: Math.ceil(addresses.length / batchAddresses) }, (_, batch) => ({
    ...stocking,
    addresses: addresses.slice(batch * batchAddresses, (batch + 1) * batchAddresses),
  }))
}

/**
 * Adds addresses to stock in batches. A repeated address is added once. After a crash whole batches are appended (on
 * EventStoreDB possibly a part of one); the same call again completes it.
 * @throws CommandOverload when the log cannot take it; the same call again converges
 */
export const addAddresses = async (
  runner: CommandRunner,
  stocking: Stocking,
  cause: Cause,
): Promise<{ readonly report: StockingReport; readonly position: number | null }> => {
  let report = emptyReport
  let position: number | null = null
  for (const batch of batchesOf(stocking)) {
    const streams: Record<string, StreamRef<StockState | AddressState>> = {
      stock: { stream: stockStream(batch.productId, batch.country), fold: stockFold },
      ...Object.fromEntries(
        batch.addresses.map(({ ip }) => [ip, { stream: addressStream(ip), fold: addressFold }]),
      ),
    }
    const outcome = await runner.run({
      name: 'stock-addresses',
      correlationId: cause.correlationId,
      actor: cause.actor,
      streams,
      decide: ({ stock, ...addresses }, { nowMs }) =>
        decideStocking(
          {
            stock: stock as StockState,
            addresses: new Map(Object.entries(addresses as Record<string, AddressState>)),
          },
          batch,
          nowMs,
        ),
    })
    report = mergeReports(report, outcome.answer)
    position = outcome.position ?? position
  }
  return { report, position }
}
