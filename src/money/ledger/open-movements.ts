import type pg from 'pg'
import type { Logger } from 'pino'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { type AccountId, newId } from '../../kernel/ids.ts'
import { handlersTimeMs, inTurns, type Poller, startPoller, workOnEach } from '../../platform/work/poller.ts'
import type { ManualMovement } from './manual-events.ts'
import type { Wallets } from './service.ts'

type OpenMovement = { movement_id: string; movement: ManualMovement; opened_at: string }

const maxMovementsARun = 100

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
  const open = inTurns<OpenMovement>(maxMovementsARun, async (after) => {
    const { rows } = await pool.query<OpenMovement>({
      name: 'open-movements',
      text: `select movement_id, movement, opened_at from read.open_movements
              where opened_at <= $1::timestamptz
                and (opened_at, movement_id) > (coalesce($2::timestamptz, '-infinity'), $3::text)
              order by opened_at, movement_id limit ${maxMovementsARun}`,
      values: [isoTime(clock() - handlersTimeMs), after?.opened_at ?? null, after?.movement_id ?? ''],
    })
    return rows
  })
  const work = async (): Promise<void> => {
    await workOnEach(await open(), async ({ movement_id: movementId, movement }) => {
      const answer = await wallets.resume(movement, { actor, correlationId: newId('run') })
      const outcome = answer.outcome === 'refused' ? answer.refusal.code : answer.outcome
      const fields = { movementId, accountId: movement.accountId as AccountId, outcome }
      if (outcome === 'unconfirmed')
        logger.error(fields, 'a movement by hand must be looked up by an operator')
      else logger.info(fields, 'an open movement by hand was finished')
    })
  }
  return startPoller({ name: 'open-movements', intervalMs: deps.intervalMs ?? 5_000, work, logger })
}
