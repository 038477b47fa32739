import type pg from 'pg'
import type { AccountId } from '../../kernel/ids.ts'
import type { ResellerGateways, StoredGateway } from '../../money/payments/gateways.ts'
import type { ResellerRail } from '../../money/payments/rails.ts'
import type { ResellerCredentials } from './credentials.ts'
import { plainSettings, type Terms } from './fold.ts'

/** What a reseller's pay pages call it before it has a name. */
const unnamed = 'Shop'

/** A reseller's settings as the read model has them now. */
export const readTerms = async (pool: pg.Pool, reseller: AccountId): Promise<Terms> => {
  const { rows } = await pool.query<{ terms: Terms }>({
    name: 'read-reseller-terms',
    text: 'select terms from read.reseller_terms where reseller_id = $1::text',
    values: [reseller],
  })
  return rows[0]?.terms ?? plainSettings
}

/** The gateways of resellers: which one is a rail's stands in their terms, what signs in to it in the vault. */
export const createResellerGateways = ({
  pool,
  credentials,
}: {
  readonly pool: pg.Pool
  readonly credentials: Pick<ResellerCredentials, 'gateway'>
}): ResellerGateways => {
  const byId: ResellerGateways['byId'] = async (gatewayId) => {
    const found = await credentials.gateway(gatewayId)
    if (!found) return null
    const { resellerId, rail: _, reference, ...secrets } = found
    const { shop } = await readTerms(pool, resellerId)
    const stored: StoredGateway = {
      gatewayId: reference,
      owner: resellerId,
      merchantName: shop.merchantName ?? unnamed,
      credentials: secrets,
    }
    return stored
  }
  return {
    byId,
    forRail: async (owner, rail) => {
      const { gateways } = await readTerms(pool, owner)
      const live = gateways[rail as ResellerRail]
      return live ? byId(live.reference) : null
    },
  }
}
