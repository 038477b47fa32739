import type { Core } from './core.ts'
import { startMovementReactor } from './ledger/open-movements.ts'
import { createWallets } from './ledger/service.ts'
import { createCompletion } from './orders/completion.ts'
import { startCompletionReactor } from './orders/open-orders.ts'
import { startRentalExpiry } from './stock/expiry.ts'

/** Starts what works on by itself: orders that a crash left open are completed, rentals whose time is over are ended. */
export const startReactors = (core: Core): { stop(): Promise<void> } => {
  const { pool, clock, logger, runner } = core
  const pollers = [
    startCompletionReactor({ pool, complete: createCompletion(core), clock, logger }),
    startMovementReactor({ pool, wallets: createWallets({ runner }), clock, logger }),
    startRentalExpiry({ pool, runner, clock, logger }),
  ]
  return {
    stop: async () => {
      await Promise.all(pollers.map((poller) => poller.stop()))
    },
  }
}
