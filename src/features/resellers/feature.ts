import type { ReadDatabase } from '../../../projections/database.ts'
import type { ServerCore } from '../../platform/feature/core.ts'
import type { Feature } from '../../platform/feature/feature.ts'
import { createKysely } from '../../platform/postgres/kysely.ts'
import { createVault } from '../../platform/vault/seal.ts'
import type { AccountId } from '../../kernel/ids.ts'
import type { Customers } from '../accounts/index.ts'
import type { ResellerGateways } from '../payments/index.ts'
import { createBots, startMessageWorker } from './customer-messages.ts'
import { resellerCustomerRoutes } from './customer-routes.ts'
import {
  createResellerCredentials,
  createResellerGateways,
  type ResellerCredentials,
  readTerms,
} from './gateway-credentials.ts'
import { resellerFinanceRoutes } from './reseller-finance-routes.ts'

/** What the features before this one need of resellers. */
export const openResellerAccess = ({
  pool,
  keys,
}: ServerCore): {
  readonly credentials: ResellerCredentials
  readonly gateways: ResellerGateways
  /** Where payers of a reseller's invoices return to; null: the reseller has no place of its own. */
  readonly returnUrlOf: (reseller: AccountId) => Promise<string | null>
} => {
  const credentials = createResellerCredentials({ pool, vault: createVault(keys.master) })
  return {
    credentials,
    gateways: createResellerGateways({ pool, credentials }),
    returnUrlOf: async (reseller) => {
      const { website, storefrontLink } = (await readTerms(pool, reseller)).shop
      return website ?? storefrontLink
    },
  }
}

export const open = (
  core: ServerCore,
  needs: {
    readonly customers: Customers
    readonly credentials: ResellerCredentials
    /** Where the stand-ins answer; null where none run. */
    readonly sandboxUrl: string | null
  },
): Feature => {
  const { pool, log, clock, reads, bookReads } = core
  const { customers, credentials, sandboxUrl } = needs
  const bots = createBots({ pool, credentials, sandboxUrl })
  core.closing.add(bots.close)
  return {
    routes: [
      ...resellerCustomerRoutes({ reads, db: createKysely<ReadDatabase>(pool), pool, customers }),
      ...resellerFinanceRoutes({ pool, reads: bookReads }),
    ],
    workers: [({ workers }) => startMessageWorker({ workers, pool, log, botOf: bots.of, clock })],
  }
}
