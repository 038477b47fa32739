import { networkInterfaces } from 'node:os'
import type pg from 'pg'
import type { Logger } from 'pino'
import type { RunningWorker, Scheduler } from '../platform/work/scheduler.ts'
import type { Gateway } from './accept/gateway.ts'
import { rentalListeners } from './workers.ts'

const maxListeners = 10_000

const everywhere = new Set(['0.0.0.0', '::'])

const ownAddresses = (): readonly string[] =>
  Object.values(networkInterfaces())
    .flatMap((all) => all ?? [])
    .map(({ address }) => address)
/** Linux answers on every address of 127.0.0.0/8, though no interface lists them. */
const hasLoopbackNetwork = process.platform === 'linux'

/**
 * Listens on the rented addresses of this machine: the address that a client dials says which rental it means. Nothing to
 * do where the gateway listens on every interface.
 */
export const startRentalListeners = (deps: {
  readonly scheduler: Scheduler
  readonly pool: pg.Pool
  readonly gateway: Pick<Gateway, 'listen' | 'unlisten'>
  readonly port: number
  readonly shared: boolean
  /** What the gateway listens on anyway. */
  readonly listen: readonly string[]
  readonly logger: Logger
}): Pick<RunningWorker, 'stop'> => {
  const { scheduler, pool, gateway, port, shared, logger } = deps
  const listening = new Set<string>()
  const refused = new Set<string>()

  const work = async (): Promise<void> => {
    const { rows } = await pool.query<{ readonly ip: string }>({
      name: 'gateway-rented',
      // Texts from 127. up to 127/ are all that begin so.
      text: `select distinct ip from read.proxies
              where released_at is null
                and (ip = any ($1::text[]) or ($2::boolean and ip >= '127.' collate "C" and ip < '127/' collate "C"))
              limit ${maxListeners}`,
      values: [ownAddresses(), hasLoopbackNetwork],
    })
    const wanted = new Set(rows.map(({ ip }) => ip).filter((ip) => !deps.listen.includes(ip)))
    for (const host of wanted)
      if (!listening.has(host) && !refused.has(host))
        try {
          await gateway.listen({ host, port, shared })
          listening.add(host)
        } catch (err) {
          refused.add(host)
          logger.error({ err, host, port }, 'a rented address of this machine cannot be listened on')
        }
    for (const host of listening)
      if (!wanted.has(host)) {
        gateway.unlisten({ host, port })
        listening.delete(host)
      }
  }

  if (deps.listen.some((host) => everywhere.has(host))) return { stop: async () => undefined }
  return scheduler.start(rentalListeners, work)
}
