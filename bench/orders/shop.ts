import { createAccounts } from '../../src/accounts/service.ts'
import { readConfig } from '../../src/config.ts'
import { openCore } from '../../src/core.ts'
import { createCustomers } from '../../src/customers/service.ts'
import { createLogger } from '../../src/http/logging.ts'
import { createWallets } from '../../src/ledger/service.ts'
import { addAddresses } from '../../src/stock/stocking.ts'

const wallets = 64
const addressesInStock = 60_000
const cause = { actor: { kind: 'operator', name: 'bench' }, correlationId: 'bench' } as const

/** Whom a reseller's orders are for; each reseller has its own customer of this name. */
export const customer = 'customer-1'

/**
 * Accounts with full wallets, their keys, and addresses enough for every order of the run; as many resellers, each with
 * a customer whose credit is as full.
 */
export const prepare = async (
  env: NodeJS.ProcessEnv,
): Promise<{ readonly keys: readonly string[]; readonly resellerKeys: readonly string[] }> => {
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
    const account = async (email: string, reseller: boolean) => {
      const made = await accounts.create({ email, reseller }, cause)
      if (made.outcome !== 'done') throw new Error(`no account: ${JSON.stringify(made)}`)
      const { accountId } = made
      const issued = await accounts.issueKey({ accountId, scopes: ['buy'], dailyCapCents: null }, cause)
      if (issued.outcome !== 'done') throw new Error(`no key: ${JSON.stringify(issued)}`)
      await ledger.credit({ accountId, amountCents: 500_000_000, reference: 'bench' }, cause)
      return { accountId, key: issued.key }
    }
    const keys: string[] = []
    const resellerKeys: string[] = []
    for (let n = 0; n < wallets; n += 1) {
      keys.push((await account(`bench-${n}@example.com`, false)).key)
      const { accountId, key } = await account(`reseller-${n}@example.com`, true)
      resellerKeys.push(key)
      const customerId = await customers.ensure(accountId, customer)
      const payment = {
        reason: 'payment',
        gateway: null,
        reference: 'bench',
        amountCents: 500_000_000,
      } as const
      await ledger.adjustCustomer({ accountId, customerId, ...payment }, cause)
    }
    const addresses = Array.from({ length: addressesInStock }, (_, n) => ({
      ip: `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`,
      city: null,
      asn: null,
      asnOrg: null,
      carrierId: null,
      service: null,
    }))
    await addAddresses(core.runner, { productId: 'isp-static', country: 'USA', addresses }, cause)
    return { keys, resellerKeys }
  } finally {
    await core.close()
  }
}
