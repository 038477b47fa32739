import { createHmac } from 'node:crypto'
import type pg from 'pg'
import type { StockedEndpoint } from '../../domain/stock/events.ts'
import { deriveKey, type MasterKey } from '../../platform/vault/keys.ts'
import { createLogins, type Login, type Logins, type PlacedLogin } from '../../platform/vault/logins.ts'
import { createVault } from '../../platform/vault/seal.ts'
import type { Stocking } from './add-stock.ts'
import type { ParsedStock } from './parse-stock.ts'

/** The endpoint of a login: protocol, host and port. */
export const placeOfEndpoint = ({ protocol, host, port }: Omit<StockedEndpoint, 'credentialId'>): string =>
  `${protocol} ${host}:${port}`

/** Stores the logins for the endpoints of stocked addresses. */
export type StockLogins = Pick<Logins, 'drop' | 'open' | 'isSealed'> & {
  /** Seals the logins, and returns the addresses with login ids instead. */
  store(stock: ParsedStock): Promise<Stocking>
}

const idLength = 32

/**
 * A login's id is a keyed hash of the address, the login and its endpoint. So the same file again changes nothing, and
 * an event with the id does not reveal the login. A login that a release before 0.2.0 stored keeps its id, which does
 * not include the endpoint.
 */
export const createStockLogins = (dependencies: {
  readonly pool: pg.Pool
  readonly master: MasterKey
}): StockLogins => {
  const { pool } = dependencies
  const key = deriveKey(dependencies.master, 'stock logins v1')
  const table = 'vault.stock_credentials'
  const { drop, open, isSealed, storeAs } = createLogins(
    { pool, vault: createVault(dependencies.master) },
    { table, owner: 'ip', context: 'stock login', prefix: 'stl' },
  )
  const idOf = (parts: readonly string[]): string =>
    `stl_${createHmac('sha256', key).update(JSON.stringify(parts)).digest('hex').slice(0, idLength)}`
  const formerId = (ip: string, { username, password }: Login): string => idOf([ip, username, password])

  const storedBefore = async ({ addresses }: ParsedStock): Promise<ReadonlySet<string>> => {
    const ids = addresses.flatMap(({ ip, endpoint }) =>
      endpoint?.login ? [formerId(ip, endpoint.login)] : [],
    )
    if (ids.length === 0) return new Set()
    const { rows } = await pool.query<{ id: string }>(
      `select credential_id as id from ${table} where credential_id = any ($1::text[])`,
      [ids],
    )
    return new Set(rows.map(({ id }) => id))
  }

  return {
    drop,
    open,
    isSealed,
    store: async (stock) => {
      const { productId, country, addresses } = stock
      const former = await storedBefore(stock)
      const newLogins: (PlacedLogin & { readonly credentialId: string })[] = []
      const stocked = addresses.map(({ endpoint, ...address }) => {
        if (!endpoint) return address
        const { login, ...rest } = endpoint
        if (!login) return { ...address, endpoint: { ...rest, credentialId: null } }
        const { ip } = address
        const place = placeOfEndpoint(rest)
        const before = formerId(ip, login)
        if (former.has(before)) return { ...address, endpoint: { ...rest, credentialId: before } }
        const credentialId = idOf([ip, login.username, login.password, place])
        newLogins.push({ credentialId, owner: ip, place, login })
        return { ...address, endpoint: { ...rest, credentialId } }
      })
      await storeAs(newLogins)
      return { productId, country, addresses: stocked }
    },
  }
}
