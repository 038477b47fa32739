import type { Core } from './core.ts'
import { startMovementReactor } from './ledger/open-movements.ts'
import { createWallets } from './ledger/service.ts'
import { createCompletion } from './orders/completion.ts'
import { startCompletionReactor } from './orders/open-orders.ts'
import { type Projecting, tablesMade } from './projecting.ts'
import { startRentalExpiry } from './stock/expiry.ts'

/**
 * Starts what works on by itself, once the tables are made that tell it where to look: orders and movements that a
 * crash left open are completed, rentals whose time is over are ended.
 */
export const startReactors = (core: Core, projecting: Projecting): { stop(): Promise<void> } => {
  const { pool, clock, logger, runner } = core
  const stopping = new AbortController()
  const started = tablesMade(projecting, stopping.signal).then((made) =>
    made
      ? [
          startCompletionReactor({ pool, complete: createCompletion(core), clock, logger }),
          startMovementReactor({ pool, wallets: createWallets({ runner }), clock, logger }),
          startRentalExpiry({ pool, runner, clock, logger }),
        ]
      : [],
  )
  return {
    stop: async () => {
      stopping.abort()
      for (const poller of await started) await poller.stop()
    },
  }
}
