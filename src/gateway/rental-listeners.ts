import { networkInterfaces } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Logger } from 'pino'
import type { ProxyRow } from '../../projections/proxies.ts'
import type { MonotonicClock } from '../kernel/clock.ts'
import type { AnnouncementSender, Announcements } from '../platform/eventstore/postgres/announcements.ts'
import type { FoldWatch } from '../platform/projections/fold-batch.ts'
import type { RunningWorker, Scheduler } from '../platform/work/scheduler.ts'
import type { Gateway } from './gateway.ts'
import { rentalListeners } from './workers.ts'

const maxListeners = 10_000

/** The NOTIFY channel that announces rented addresses. */
export const rentedChannel = 'farebox_rented'
/** Addresses per announcement, at most 39 characters each. */
const maxAddressesPerMessage = 150
/** The read tables show an announced address within this time, or never. */
const announcedForMs = 10_000

/** Projections wait this long at most for an announcement. */
const announceForMs = 50

/**
 * Announces addresses before the read tables show their rentals. A client that reads an address then finds the gateway
 * listening on it, so a new rental works with its first connection.
 */
export const announceRentals =
  ({ announce }: AnnouncementSender): FoldWatch['beforeWrite'] =>
  async ({ tables }) => {
    const change = tables.find(({ table }) => table.name === 'proxies')
    const rows = [...(change?.inserted ?? []), ...(change?.put ?? [])] as unknown as readonly ProxyRow[]
    const addresses = rows
      .filter(({ endpoint, releasedAt }) => endpoint === null && releasedAt === null)
      .map(({ ip }) => ip)
    if (addresses.length === 0) return
    const messages: string[] = []
    for (let at = 0; at < addresses.length; at += maxAddressesPerMessage)
      messages.push(addresses.slice(at, at + maxAddressesPerMessage).join(' '))
    await Promise.race([Promise.all(messages.map(announce)), sleep(announceForMs)])
  }

const wildcardAddresses = new Set(['0.0.0.0', '::'])

const ownAddresses = (): readonly string[] =>
  Object.values(networkInterfaces())
    .flatMap((all) => all ?? [])
    .map(({ address }) => address)
/** Linux answers on every address of 127.0.0.0/8, though no interface lists them. */
const hasLoopbackNetwork = process.platform === 'linux'

/**
 * Listens on the rented addresses of this machine. The address that a client dials identifies its rental. Does nothing
 * if the gateway listens on every interface.
 */
export const startRentalListeners = (dependencies: {
  readonly scheduler: Scheduler
  readonly pool: pg.Pool
  readonly gateway: Pick<Gateway, 'listen' | 'unlisten'>
  readonly announcements: Pick<Announcements, 'onAnnounced'>
  readonly monotonicMs: MonotonicClock
  readonly port: number
  readonly shared: boolean
  /** The addresses that the gateway listens on without rentals. */
  readonly listen: readonly string[]
  readonly logger: Logger
}): Pick<RunningWorker, 'stop'> => {
  const { scheduler, pool, gateway, announcements, monotonicMs, port, shared, logger } = dependencies
  const listening = new Set<string>()
  const failedHosts = new Set<string>()
  /** The time of each announcement, by the monotonic clock. */
  const announced = new Map<string, number>()

  const listenOn = async (host: string): Promise<void> => {
    if (dependencies.listen.includes(host) || listening.has(host) || failedHosts.has(host)) return
    listening.add(host)
    try {
      await gateway.listen({ host, port, shared })
    } catch (err) {
      listening.delete(host)
      failedHosts.add(host)
      logger.error({ err, host, port }, 'the gateway cannot listen on a rented address of this machine')
    }
  }

  const work = async (): Promise<void> => {
    const { rows } = await pool.query<{ readonly ip: string }>({
      name: 'gateway-rented',
      // The range from 127. to 127/ contains exactly the texts with this prefix.
      text: `select distinct ip from read.proxies
              where released_at is null
                and (ip = any ($1::text[]) or ($2::boolean and ip >= '127.' collate "C" and ip < '127/' collate "C"))
              limit ${maxListeners}`,
      values: [ownAddresses(), hasLoopbackNetwork],
    })
    const wantedHosts = new Set(rows.map(({ ip }) => ip))
    for (const [host, atMs] of announced)
      if (monotonicMs() - atMs < announcedForMs) wantedHosts.add(host)
      else announced.delete(host)
    for (const host of wantedHosts) await listenOn(host)
    for (const host of listening)
      if (!wantedHosts.has(host)) {
        gateway.unlisten({ host, port })
        listening.delete(host)
      }
  }

  if (dependencies.listen.some((host) => wildcardAddresses.has(host))) return { stop: async () => undefined }
  announcements.onAnnounced((addresses) => {
    const own = new Set(ownAddresses())
    for (const host of addresses.split(' '))
      if (own.has(host) || (hasLoopbackNetwork && host.startsWith('127.'))) {
        announced.set(host, monotonicMs())
        void listenOn(host)
      }
  })
  return scheduler.start(rentalListeners, work)
}
