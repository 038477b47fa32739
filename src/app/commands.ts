import type { Command } from 'commander'
import { commands as audit } from '../audit/commands.ts'
import { invariantGroup } from '../audit/invariants/invariants.ts'
import { commands as accounts } from '../features/accounts/commands.ts'
import { commands as approvals } from '../features/approvals/commands.ts'
import { registerBackup } from '../features/backup/commands.ts'
import { commands as catalog } from '../features/catalog/commands.ts'
import { commands as deposits } from '../features/deposits/commands.ts'
import { commands as exits } from '../features/exits/commands.ts'
import { commands as exports } from '../features/exports/commands.ts'
import { commands as finance } from '../features/finance/commands.ts'
import { commands as freeList } from '../features/free-list/commands.ts'
import { commands as notices } from '../features/notices/commands.ts'
import { ordersCommands } from '../features/orders/commands.ts'
import { commands as plans } from '../features/plans/commands.ts'
import { createMeter } from '../features/plans/index.ts'
import { commands as proxies } from '../features/proxies/commands.ts'
import { commands as reconciliation } from '../features/reconciliation/commands.ts'
import { commands as resellers } from '../features/resellers/commands.ts'
import { commands as signIn } from '../features/sign-in/commands.ts'
import { commands as stock } from '../features/stock/commands.ts'
import { commands as subscriptions } from '../features/subscriptions/commands.ts'
import { commands as wallet } from '../features/wallet/commands.ts'
import { commands as webhooks } from '../features/webhooks/commands.ts'
import type { Cli } from '../platform/cli/cli-context.ts'
import { registerDoctor } from './doctor/doctor.ts'
import { allMigrations } from './migrations.ts'
import { registerProjections } from './projection-commands.ts'
import { registerScrapers } from './scraper-commands.ts'
import { registerWork } from './work-commands.ts'
import { registerWorkers } from './workers-command.ts'

/** Every command of the program, in the order in which `--help` lists them. */
export const commandRegistrations = [
  ...accounts,
  ...signIn,
  ...wallet,
  ...catalog,
  ...stock,
  ...exits,
  ...freeList,
  ordersCommands((context) => createMeter(context).settle),
  ...approvals,
  ...plans,
  ...proxies,
  ...subscriptions,
  ...deposits,
  ...webhooks,
  ...resellers,
  ...notices,
  ...finance,
  ...exports,
  ...reconciliation,
  ...audit,
  (program: Command, cli: Cli) => registerBackup(program, cli, allMigrations),
  (program: Command, cli: Cli) => registerProjections(program, cli, [invariantGroup]),
  registerScrapers,
  registerWork,
  registerWorkers,
  registerDoctor,
] as const
