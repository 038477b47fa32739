import { addAddresses } from '../../src/features/stock/add-stock.ts'
import { cause, withBenchService } from '../accounts.ts'

const wallets = 64

/** Whom a reseller's orders are for; each reseller has its own customer of this name. */
export const customer = 'customer-1'

/**
 * Accounts with full wallets and their keys; as many resellers, each with a customer whose credit is as full.
 * @param addressesInStock enough for every order of an address in the run
 */
export const prepare = (
  env: NodeJS.ProcessEnv,
  { addressesInStock = 0 } = {},
): Promise<{ readonly keys: readonly string[]; readonly resellerKeys: readonly string[] }> =>
  withBenchService(env, async ({ core, account, credit }) => {
    const keys: string[] = []
    const resellerKeys: string[] = []
    for (let n = 0; n < wallets; n += 1) {
      keys.push((await account(`bench-${n}@example.com`, false)).key)
      const { accountId, key } = await account(`reseller-${n}@example.com`, true)
      resellerKeys.push(key)
      await credit(accountId, customer, 500_000_000)
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
  })
