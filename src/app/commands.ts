import type { Command } from 'commander'
import { registerDeliver, registerWitness } from '../audit/external-seals/witness-commands.ts'
import { invariantGroup } from '../audit/invariants/invariants.ts'
import { registerSeals } from '../audit/seals/seal-commands.ts'
import { registerVerify } from '../audit/verify-command.ts'
import { registerViolations } from '../audit/violation-commands.ts'
import { registerAccounts } from '../features/accounts/account-commands.ts'
import { registerKeys } from '../features/accounts/key-commands.ts'
import { registerProposals } from '../features/approvals/approval-commands.ts'
import { registerBackup } from '../features/backup/backup-commands.ts'
import { registerCatalog } from '../features/catalog/catalog-commands.ts'
import { registerDeposits } from '../features/deposits/deposit-commands.ts'
import { registerExits } from '../features/exits/exit-commands.ts'
import { registerExports } from '../features/exports/export-commands.ts'
import { registerExplain } from '../features/finance/explain-command.ts'
import { registerLedger } from '../features/finance/finance-commands.ts'
import { registerPeriods } from '../features/finance/period-commands.ts'
import { registerReplay } from '../features/finance/replay-command.ts'
import { registerFinanceTokens } from '../features/finance/token-commands.ts'
import { registerFreelistCommands } from '../features/free-list/list-commands.ts'
import { registerNotices } from '../features/notices/notice-commands.ts'
import { ordersCommands } from '../features/orders/order-commands.ts'
import { createMeter } from '../features/plans/meter-traffic.ts'
import { registerPlans } from '../features/plans/plan-commands.ts'
import { registerProxies } from '../features/proxies/proxy-commands.ts'
import { registerReconcile } from '../features/reconciliation/reconcile-commands.ts'
import { registerCustomers } from '../features/resellers/customer-commands.ts'
import { registerReseller } from '../features/resellers/reseller-commands.ts'
import { registerSignInLinks, registerStaff } from '../features/sign-in/staff-commands.ts'
import { registerStock } from '../features/stock/stock-commands.ts'
import { registerSubscriptions } from '../features/subscriptions/subscription-commands.ts'
import { registerWallet } from '../features/wallet/wallet-commands.ts'
import { registerWebhooks } from '../features/webhooks/webhook-commands.ts'
import type { Cli } from '../platform/cli/cli-context.ts'
import { registerDoctor } from './doctor/doctor.ts'
import { allMigrations } from './migrations.ts'
import { registerProjections } from './projection-commands.ts'
import { registerScrapers } from './scraper-commands.ts'
import { registerWork } from './work-commands.ts'

/** The commands of every room, in the order in which `--help` lists them. */
export const commandRegistrations = [
  registerAccounts,
  registerSignInLinks,
  registerKeys,
  registerWallet,
  registerCustomers,
  registerCatalog,
  registerStock,
  registerExits,
  registerFreelistCommands,
  ordersCommands((context) => createMeter(context).settle),
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
  registerViolations,
  (program: Command, cli: Cli) => registerBackup(program, cli, allMigrations),
  (program: Command, cli: Cli) => registerProjections(program, cli, [invariantGroup]),
  registerScrapers,
  registerWork,
  registerDoctor,
] as const
