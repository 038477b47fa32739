import type { ReadDatabase } from '../../../projections/database.ts'
import type { ServerCore } from '../../platform/feature/core.ts'
import type { Feature } from '../../platform/feature/feature.ts'
import { createKysely } from '../../platform/postgres/kysely.ts'
import { walletRoutes } from './routes.ts'
import { createWallets, startMovementReactor, type Wallets } from './wallet-service.ts'

export const open = (core: ServerCore): Feature & { readonly wallets: Wallets } => {
  const { pool, reads } = core
  const wallets = createWallets(core)
  return {
    wallets,
    routes: walletRoutes({ reads, db: createKysely<ReadDatabase>(pool) }),
    workers: [() => startMovementReactor({ ...core, wallets })],
  }
}
