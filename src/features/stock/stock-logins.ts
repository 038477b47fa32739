import { createHmac } from 'node:crypto'
import type pg from 'pg'
import { deriveKey, type MasterKey } from '../../platform/vault/keys.ts'
import { createLogins, type Login, type Logins } from '../../platform/vault/logins.ts'
import { createVault } from '../../platform/vault/seal.ts'
import type { Stocking } from './add-stock.ts'
import type { ParsedStock } from './parse-stock.ts'

/** What signs in at the endpoints of stocked addresses. */
export type StockLogins = Pick<Logins, 'drop' | 'open'> & {
  /** Seals the logins, and gives the addresses with the ids of these in their place. */
  store(stock: ParsedStock): Promise<Stocking>
}

const idLength = 32

/**
 * A login's id comes from the address and the login, by a secret. So the same file again changes nothing, and an event that
 * names the id tells nothing of the login.
 */
export const createStockLogins = (deps: {
  readonly pool: pg.Pool
  readonly master: MasterKey
}): StockLogins => {
  const key = deriveKey(deps.master, 'stock logins v1')
  const logins = createLogins(
    { pool: deps.pool, vault: createVault(deps.master) },
    { table: 'vault.stock_credentials', owner: 'ip', context: 'stock login', prefix: 'stl' },
  )
  const idOf = (ip: string, { username, password }: Login): string =>
    `stl_${createHmac('sha256', key)
      .update(JSON.stringify([ip, username, password]))
      .digest('hex')
      .slice(0, idLength)}`
  return {
    drop: logins.drop,
    open: logins.open,
    store: async ({ productId, country, addresses }) => {
      const sealed: { credentialId: string; owner: string; login: Login }[] = []
      const stocked = addresses.map(({ endpoint, ...address }) => {
        if (!endpoint) return address
        const { login, ...rest } = endpoint
        const credentialId = login && idOf(address.ip, login)
        if (login && credentialId) sealed.push({ credentialId, owner: address.ip, login })
        return { ...address, endpoint: { ...rest, credentialId } }
      })
      await logins.storeAs(sealed)
      return { productId, country, addresses: stocked }
    },
  }
}
