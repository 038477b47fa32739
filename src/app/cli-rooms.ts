import type { Command } from 'commander'
import { registerProjections } from '../../projections/cli.ts'
import { registerBreaches } from '../books/audit/breaches-cli.ts'
import { lawGroup } from '../books/audit/laws.ts'
import { registerSeals } from '../books/audit/seals-cli.ts'
import { registerVerify } from '../books/audit/verify-cli.ts'
import { registerBackup } from '../books/backup/cli.ts'
import { registerExports } from '../books/exports/cli.ts'
import { registerLedger } from '../books/finance/cli.ts'
import { registerExplain } from '../books/finance/explain-cli.ts'
import { registerReplay } from '../books/finance/replay-cli.ts'
import { registerFinanceTokens } from '../books/finance/tokens-cli.ts'
import { registerPeriods } from '../books/periods/cli.ts'
import { registerReconcile } from '../books/reconcile/cli.ts'
import { registerDeliver } from '../books/witness/deliver-cli.ts'
import { registerWitness } from '../books/witness/witness-cli.ts'
import { registerSignInLinks } from '../console/session/cli.ts'
import { registerStaff } from '../console/staff/cli.ts'
import { registerExits } from '../gateway/exits/cli.ts'
import { registerAccounts } from '../market/accounts/cli.ts'
import { registerKeys } from '../market/accounts/keys-cli.ts'
import { registerCatalog } from '../market/catalog/cli.ts'
import { registerCustomers } from '../market/customers/cli.ts'
import { registerOrders } from '../market/orders/cli.ts'
import { registerProposals } from '../market/orders/proposals-cli.ts'
import { registerPlans } from '../market/plans/cli.ts'
import { registerProxies } from '../market/proxies/cli.ts'
import { registerReseller } from '../market/resellers/cli.ts'
import { registerStock } from '../market/stock/cli.ts'
import { registerSubscriptions } from '../market/subscriptions/cli.ts'
import { registerDeposits } from '../money/deposits/cli.ts'
import { registerWallet } from '../money/ledger/cli.ts'
import { registerNotices } from '../outbound/notices/cli.ts'
import { registerWebhooks } from '../outbound/webhooks/cli.ts'
import type { Cli } from '../platform/cli/cli.ts'
import { registerDemo } from './demo/cli.ts'
import { registerDoctor } from './doctor/cli.ts'
import { registerFreelistCommands } from './freelist/cli.ts'
import { allMigrations } from './migrations.ts'
import { registerScrapers } from './scrapers-cli.ts'
import { registerWork } from './work-cli.ts'

/** The commands of every room, in the order in which `--help` lists them. */
export const rooms = [
  registerAccounts,
  registerSignInLinks,
  registerKeys,
  registerWallet,
  registerCustomers,
  registerCatalog,
  registerStock,
  registerExits,
  registerFreelistCommands,
  registerOrders,
  registerProposals,
  registerPlans,
  registerProxies,
  registerSubscriptions,
  registerDeposits,
  registerWebhooks,
  registerReseller,
  registerNotices,
  registerStaff,
  registerLedger,
  registerExports,
  registerReplay,
  registerExplain,
  registerFinanceTokens,
  registerReconcile,
  registerPeriods,
  registerSeals,
  registerDeliver,
  registerWitness,
  registerVerify,
  registerBreaches,
  (program: Command, cli: Cli) => registerBackup(program, cli, allMigrations),
  (program: Command, cli: Cli) => registerProjections(program, cli, [lawGroup]),
  registerScrapers,
  registerWork,
  registerDemo,
  registerDoctor,
] as const
