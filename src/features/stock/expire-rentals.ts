import type pg from 'pg'
import { decideExpiry } from '../../domain/stock/decide.ts'
import { stockFold } from '../../domain/stock/fold.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { decided } from '../../kernel/decider.ts'
import { newId } from '../../kernel/ids.ts'
import { stockStream } from '../../kernel/streams.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import { handle } from '../../platform/commands/command.ts'
import type { RunningWorker, Scheduler } from '../../platform/work/scheduler.ts'
import { worker } from '../../platform/work/worker.ts'
import { type WorklistFactory, worklist, worklistRound } from '../../platform/work/worklist.ts'

type Due = { product_id: string; country: string; proxy_ids: string[] }

/**
 * The largest number of rentals of one stock that one run ends, so that one event is far below the log's limit. The
 * limit is per stock: rentals of a stock that cannot be decided on stay overdue, and would block all others.
 */
const maxRentalsAStock = 500
const maxStocksARun = 1_000

/**
 * Ends rentals that have expired, so that their addresses return to stock. The stock stream decides which rentals have
 * expired, by the injected clock. The read model only lists the streams to check.
 */
export const rentalsOver = ({
  runner,
  clock,
}: {
  readonly runner: CommandRunner
  readonly clock: Clock
}): WorklistFactory =>
  worklist<Due>({
    name: 'rentals-over',
    read: `select product_id, country, array_agg(proxy_id) as proxy_ids
             from (select product_id, country, proxy_id,
                          row_number() over (partition by product_id, country order by expires_at) as place
                     from read.proxies where released_at is null and expires_at <= $1::timestamptz) overdue
            where place <= ${maxRentalsAStock}
            group by product_id, country`,
    values: () => [isoTime(clock())],
    key: { product_id: 'text', country: 'text' },
    limit: maxStocksARun,
    work: async ({ product_id, country, proxy_ids }) => {
      const cause = { actor: { kind: 'system', name: 'rental-expiry' }, correlationId: newId('run') } as const
      const ref = { stream: stockStream(product_id, country), fold: stockFold }
      await handle(runner, { ...cause, name: 'expire-rentals' }, ref, (stock, { nowMs }) =>
        decided(...decideExpiry(stock, proxy_ids, nowMs)),
      )
    },
  })

export const rentalExpiry = worker({
  name: 'rental-expiry',
  about: 'Ends rentals that expired',
  trigger: { everyMs: 1_000, quietMs: 10_000 },
  per: 'process',
  process: 'server',
})

export const startRentalExpiry = (dependencies: {
  readonly scheduler: Scheduler
  readonly pool: pg.Pool
  readonly runner: CommandRunner
  readonly clock: Clock
  readonly intervalMs?: number
}): RunningWorker =>
  dependencies.scheduler.start(rentalExpiry, worklistRound(dependencies.pool, [rentalsOver(dependencies)]), {
    everyMs: dependencies.intervalMs,
  })
