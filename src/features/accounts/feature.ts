import { hot } from '../../../projections/groups.ts'
import type { AccountId } from '../../kernel/ids.ts'
import type { ServerCore } from '../../platform/feature/core.ts'
import type { Feature } from '../../platform/feature/feature.ts'
import type { Directory } from '../../platform/http/auth.ts'
import { type Accounts, createAccounts } from './account-service.ts'
import { createDirectory } from './authenticate.ts'
import { type Customers, createCustomers } from './customers.ts'
import { keyPages } from './key-pages.ts'
import { startKeyUses } from './key-uses.ts'
import { accountRoutes } from './routes.ts'

// For the list of workers (src/app/worker-list.ts).
export { keyUses } from './key-uses.ts'

type AccountsFeature = Feature & {
  readonly accounts: Accounts
  readonly customers: Customers
  /** By id or e-mail; null if there is none. */
  readonly findAccount: (idOrEmail: string) => Promise<AccountId | null>
  /** Opens the directory that authenticates keys and records their use, until it is stopped. */
  openDirectory(): { readonly directory: Directory; stop(): Promise<void> }
}

export const open = (core: ServerCore): AccountsFeature => {
  const { pool, db, log, clock, monotonicMs, reads } = core
  const { progress } = core.projecting
  const accounts = createAccounts(core)
  return {
    accounts,
    customers: createCustomers({ pool, master: core.keys.master }),
    findAccount: async (idOrEmail) => {
      const cause = { actor: { kind: 'system', name: 'console' }, correlationId: 'console' } as const
      if (idOrEmail.includes('@')) return (await accounts.byEmail(idOrEmail, cause))?.accountId ?? null
      const accountId = idOrEmail as AccountId
      return /^acc_[0-9a-f]{32}$/.test(accountId) && (await accounts.read(accountId, cause))
        ? accountId
        : null
    },
    openDirectory: () => {
      const keyUses = startKeyUses(core)
      return {
        directory: createDirectory({
          pool,
          log,
          logger: core.logger,
          clock,
          clockProblem: core.clockGuard.problem,
          onUse: keyUses.note,
          watch: progress.watch(hot.name, ['accounts', 'keys']),
          monotonicMs,
        }),
        stop: keyUses.stop,
      }
    },
    routes: accountRoutes({ reads, db, runner: core.runner, clock }),
    pages: keyPages({ accounts, pool }),
  }
}
