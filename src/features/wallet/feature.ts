import type { ServerCore } from '../../platform/feature/core.ts'
import type { Feature } from '../../platform/feature/feature.ts'
import { walletRoutes } from './routes.ts'
import { transactionPages } from './transaction-pages.ts'
import {
  createReadBalance,
  createWallets,
  type ReadBalance,
  startMovementReactor,
  type Wallets,
} from './wallet-service.ts'

// For the list of workers (src/app/worker-list.ts).
export { openMovements } from './wallet-service.ts'

export const open = (
  core: ServerCore,
): Feature & { readonly wallets: Wallets; readonly readBalance: ReadBalance } => {
  const { db, reads } = core
  const wallets = createWallets(core)
  return {
    wallets,
    readBalance: createReadBalance({ db, reads }),
    routes: walletRoutes({ reads, db }),
    pages: transactionPages({ db, reads }),
    workers: [() => startMovementReactor({ ...core, wallets })],
  }
}
