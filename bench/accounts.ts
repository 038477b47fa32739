import { readConfig } from '../src/app/config.ts'
import { openCore } from '../src/app/open-core.ts'
import { createAccounts } from '../src/features/accounts/account-service.ts'
import { createCustomers } from '../src/features/accounts/customers.ts'
import { createWallets } from '../src/features/wallet/wallet-service.ts'
import type { AccountId } from '../src/kernel/ids.ts'
import type { KeyCap } from '../src/kernel/scopes.ts'
import type { Core } from '../src/platform/feature/core.ts'
import { createLogger } from '../src/platform/http/logging.ts'

export const cause = { actor: { kind: 'operator', name: 'bench' }, correlationId: 'bench' } as const

/** What benchmarks make before a server starts, by the services that the CLI calls too. */
export type BenchService = {
  readonly core: Core
  /** An account that may buy and scrape, with five million dollars in its wallet. */
  account(
    email: string,
    reseller: boolean,
    cap?: KeyCap,
  ): Promise<{ readonly accountId: AccountId; readonly key: string }>
  /** Gives a reseller's customer credit. */
  credit(accountId: AccountId, customer: string, amountCents: number): Promise<void>
}

/** Opens the core under a server's settings, and closes it. */
export const withBenchService = async <Made>(
  env: NodeJS.ProcessEnv,
  use: (service: BenchService) => Promise<Made>,
): Promise<Made> => {
  const core = await openCore({
    config: readConfig(env),
    role: 'command',
    systemClock: Date.now,
    logger: createLogger('error'),
    hooks: { at: () => undefined },
  })
  try {
    const accounts = createAccounts(core)
    const ledger = createWallets(core)
    const customers = createCustomers({ pool: core.pool, master: core.keys.master })
    return await use({
      core,
      account: async (email, reseller, cap) => {
        const made = await accounts.create({ email, reseller }, cause)
        if (made.outcome !== 'done') throw new Error(`no account: ${JSON.stringify(made)}`)
        const { accountId } = made
        const issued = await accounts.issueKey(
          { accountId, scopes: ['buy', 'scrape'], cap: cap ?? null },
          cause,
        )
        if (issued.outcome !== 'done') throw new Error(`no key: ${JSON.stringify(issued)}`)
        await ledger.credit({ accountId, amountCents: 500_000_000, reference: 'bench' }, cause)
        return { accountId, key: issued.key }
      },
      credit: async (accountId, customer, amountCents) => {
        const customerId = await customers.ensure(accountId, customer)
        const payment = { reason: 'payment', gateway: null, reference: 'bench', amountCents } as const
        await ledger.adjustCustomer({ accountId, customerId, ...payment }, cause)
      },
    })
  } finally {
    await core.close()
  }
}
