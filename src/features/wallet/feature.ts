import type { ServerCore } from '../../platform/feature/core.ts'
import type { Feature } from '../../platform/feature/feature.ts'
import { createReadBalance, type ReadBalance } from './read-balance.ts'
import { walletRoutes } from './routes.ts'
import { transactionPages } from './transaction-pages.ts'
import { createWallets, startMovementReactor, type Wallets } from './wallet-service.ts'

// For the list of workers (src/app/worker-list.ts).
export { openMovements } from './wallet-service.ts'

export const open = (
  core: ServerCore,
): Feature & { readonly wallets: Wallets; readonly readBalance: ReadBalance } => {
  const { reads } = core
  const { db } = core
  const wallets = createWallets(core)
  return {
    wallets,
    readBalance: createReadBalance({ db, reads }),
    routes: walletRoutes({ reads, db }),
    pages: transactionPages({ db, reads }),
    workers: [() => startMovementReactor({ ...core, wallets })],
  }
}
