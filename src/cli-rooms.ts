import type { Command } from 'commander'
import { registerProjections } from '../projections/cli.ts'
import { registerAccounts } from './accounts/cli.ts'
import { registerKeys } from './accounts/keys-cli.ts'
import { registerSeals } from './audit/seals-cli.ts'
import { registerVerify } from './audit/verify-cli.ts'
import { registerBackup } from './backup/cli.ts'
import { registerCatalog } from './catalog/cli.ts'
import type { Cli } from './cli/cli.ts'
import { registerCustomers } from './customers/cli.ts'
import { registerDeposits } from './deposits/cli.ts'
import { registerDoctor } from './doctor/cli.ts'
import { registerExports } from './exports/cli.ts'
import { registerLedger } from './finance/cli.ts'
import { registerExplain } from './finance/explain-cli.ts'
import { registerReplay } from './finance/replay-cli.ts'
import { registerFinanceTokens } from './finance/tokens-cli.ts'
import { registerWallet } from './ledger/cli.ts'
import { registerNotices } from './notices/cli.ts'
import { registerOrders } from './orders/cli.ts'
import { registerPeriods } from './periods/cli.ts'
import { registerPlans } from './plans/cli.ts'
import { allMigrations } from './postgres/migrations.ts'
import { registerProxies } from './proxies/cli.ts'
import { registerReseller } from './resellers/cli.ts'
import { registerStock } from './stock/cli.ts'
import { registerSubscriptions } from './subscriptions/cli.ts'
import { registerWebhooks } from './webhooks/cli.ts'

/** The commands of every room, in the order in which `--help` lists them. */
export const rooms = [
  registerAccounts,
  registerKeys,
  registerWallet,
  registerCustomers,
  registerCatalog,
  registerStock,
  registerOrders,
  registerPlans,
  registerProxies,
  registerSubscriptions,
  registerDeposits,
  registerWebhooks,
  registerReseller,
  registerNotices,
  registerLedger,
  registerExports,
  registerReplay,
  registerExplain,
  registerFinanceTokens,
  registerPeriods,
  registerSeals,
  registerVerify,
  (program: Command, cli: Cli) => registerBackup(program, cli, allMigrations),
  registerProjections,
  registerDoctor,
] as const
