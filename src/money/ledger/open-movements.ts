import type pg from 'pg'
import type { Logger } from 'pino'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { type AccountId, newId } from '../../kernel/ids.ts'
import type { Poller } from '../../platform/work/poller.ts'
import { handlersTimeMs, startWorklists, worklist } from '../../platform/work/worklist.ts'
import type { ManualMovement } from './manual-events.ts'
import type { Wallets } from './service.ts'

type OpenMovement = { movement_id: string; movement: ManualMovement; opened_at: string }

/**
 * Finishes movements by hand that a crash left recorded: the wallet moves, or what it cannot bear is withdrawn. Several
 * processes may run it; finishing one twice does nothing the second time.
 */
export const startMovementReactor = (deps: {
  readonly pool: pg.Pool
  readonly wallets: Wallets
  readonly clock: Clock
  readonly logger: Logger
  readonly intervalMs?: number
}): Poller => {
  const { pool, wallets, clock, logger } = deps
  const actor = { kind: 'system', name: 'open-movements' } as const
  const open = worklist<OpenMovement>({
    name: 'open-movements',
    read: 'select movement_id, movement, opened_at from read.open_movements where opened_at <= $1::timestamptz',
    values: () => [isoTime(clock() - handlersTimeMs)],
    key: { opened_at: 'timestamptz', movement_id: 'text' },
    limit: 100,
    work: async ({ movement_id: movementId, movement }) => {
      const answer = await wallets.resume(movement, { actor, correlationId: newId('run') })
      const outcome = answer.outcome === 'refused' ? answer.refusal.code : answer.outcome
      const fields = { movementId, accountId: movement.accountId as AccountId, outcome }
      if (outcome === 'unconfirmed')
        logger.error(fields, 'a movement by hand must be looked up by an operator')
      else logger.info(fields, 'an open movement by hand was finished')
    },
  })
  const intervalMs = deps.intervalMs ?? 5_000
  return startWorklists({ name: 'open-movements', intervalMs, pool, logger, lists: [open] })
}
