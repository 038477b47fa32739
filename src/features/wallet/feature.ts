import type { ServerCore } from '../../platform/feature/core.ts'
import type { Feature } from '../../platform/feature/feature.ts'
import type { Mailer } from '../../platform/outgoing/mailer.ts'
import type { Accounts } from '../accounts/index.ts'
import { startLowBalanceMails } from './low-balance-mails.ts'
import { lowBalancePage } from './low-balance-page.ts'
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
export { lowBalanceMailWorker } from './low-balance-mails.ts'
export { openMovements } from './wallet-service.ts'

export const open = (
  core: ServerCore,
  needs: {
    readonly accounts: Accounts
    /** Null: no mail is sent. */
    readonly mailer: Mailer | null
    /** The name of the service in its mails. */
    readonly name: string
    /** The origin of the console. */
    readonly origin: () => string
  },
): Feature & { readonly wallets: Wallets; readonly readBalance: ReadBalance } => {
  const { db, reads } = core
  const { accounts } = needs
  const wallets = createWallets(core)
  return {
    wallets,
    readBalance: createReadBalance({ db, reads }),
    routes: walletRoutes({ reads, db, accounts }),
    pages: [...transactionPages({ db, reads }), lowBalancePage({ db, reads, accounts })],
    workers: [
      () => startMovementReactor({ ...core, wallets }),
      ({ workers }) => startLowBalanceMails({ ...core, ...needs, workers }),
    ],
  }
}
