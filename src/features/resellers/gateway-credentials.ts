import { LRUCache } from 'lru-cache'
import type pg from 'pg'
import { z } from 'zod'
import type { ResellerRail } from '../../domain/payments/payments.ts'
import { type BotRef, type GatewayRef, type Terms, termsFold } from '../../domain/resellers/fold.ts'
import { type AccountId, newId } from '../../kernel/ids.ts'
import { termsStream } from '../../kernel/streams.ts'
import { createLogStates, type LogStates } from '../../platform/commands/log-states.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { commitmentOf, type Vault } from '../../platform/vault/seal.ts'
import {
  type GatewayCredentials,
  gatewayCredentials,
  type ResellerGateways,
  type StoredGateway,
} from '../payments/index.ts'
import { chatForm } from './customer-record.ts'

const loopback = new Set(['127.0.0.1', 'localhost', '[::1]'])

/** A third party's address: https, or http on this machine for the sandbox. */
const address = z
  .string()
  .max(2_000)
  .refine(
    (text) => {
      const url = URL.parse(text)
      if (url === null || url.username !== '' || url.password !== '') return false
      return url.protocol === 'https:' || (url.protocol === 'http:' && loopback.has(url.hostname))
    },
    { error: 'must be an https address without a user name' },
  )

export type { GatewayCredentials } from '../payments/index.ts'
export { gatewayCredentials, realCredentials } from '../payments/index.ts'

export const botCredentials = z.strictObject({
  provider: z.literal('telegram'),
  token: z.string().regex(/^\d{1,20}:[A-Za-z0-9_-]{1,200}$/),
  apiUrl: address.optional(),
  /** The reseller's own chat: it gets messages about orders that wait for the wallet. */
  chatId: z.string().min(1).regex(chatForm).optional(),
})
export type BotCredentials = z.infer<typeof botCredentials>

/** A reseller's own gateway with its credentials. Never log it. */
export type ResellerGateway = {
  readonly resellerId: AccountId
  readonly rail: ResellerRail
  /** The permanent id of these credentials. Store it with each invoice, and use it in callback URLs. */
  readonly reference: string
} & GatewayCredentials

/** Stored credentials, and a commitment to their encrypted form. */
export type Stored<Ref> = Ref & { readonly commitment: string }

export type ResellerBot = { readonly resellerId: AccountId; readonly reference: string } & BotCredentials

type Row = {
  readonly reseller_id: AccountId
  readonly purpose: ResellerRail | 'bot'
  readonly provider: string
  readonly sealed: Buffer
}

/** The vault of resellers' credentials. The credentials of a reference never change. */
export type ResellerCredentials = {
  /** Encrypts and stores. It takes effect when a `GatewaySet` event contains the reference. */
  storeGateway(
    reseller: AccountId,
    rail: ResellerRail,
    credentials: GatewayCredentials,
  ): Promise<Stored<GatewayRef>>
  storeBot(reseller: AccountId, credentials: BotCredentials): Promise<Stored<BotRef>>
  /** Deletes credentials that no event refers to. */
  drop(reference: string): Promise<void>
  /**
   * The gateway of a reference, including replaced ones; null if unknown.
   * @throws SealBroken under another master key
   */
  gateway(reference: string): Promise<ResellerGateway | null>
  /** As `gateway`, for a messaging bot. */
  bot(reference: string): Promise<ResellerBot | null>
}

const contextOf = (reference: string, { reseller_id, purpose, provider }: Omit<Row, 'sealed'>): string =>
  `reseller-credentials ${JSON.stringify([reference, reseller_id, purpose, provider])}`

const maxCached = 5_000

export const createResellerCredentials = ({
  pool,
  vault,
}: {
  readonly pool: pg.Pool
  readonly vault: Vault
}): ResellerCredentials => {
  const credentialCache = new LRUCache<string, ResellerGateway | ResellerBot>({ max: maxCached })

  const store = async (row: Omit<Row, 'sealed'>, secrets: object) => {
    const reference = newId<string>('crd', row.reseller_id)
    const sealed = vault.seal(Buffer.from(JSON.stringify(secrets)), contextOf(reference, row))
    await pool.query(
      `insert into vault.reseller_credentials (reference, reseller_id, purpose, provider, sealed)
       values ($1::text, $2::text, $3::text, $4::text, $5::bytea)`,
      [reference, row.reseller_id, row.purpose, row.provider, sealed],
    )
    const committed = { what: 'reseller-credentials', id: reference, owner: row.reseller_id }
    return { reference, commitment: commitmentOf(committed, sealed) }
  }

  const find = async (reference: string): Promise<ResellerGateway | ResellerBot | null> => {
    const cached = credentialCache.get(reference)
    if (cached) return cached
    const { rows } = await pool.query<Row>({
      name: 'reseller-credentials',
      text: `select reseller_id, purpose, provider, sealed from vault.reseller_credentials
             where reference = $1::text`,
      values: [reference],
    })
    const [row] = rows
    if (!row) return null
    const secrets = JSON.parse(vault.open(row.sealed, contextOf(reference, row)).toString('utf8'))
    const { reseller_id: resellerId, provider, purpose } = row
    const found =
      purpose === 'bot'
        ? { resellerId, reference, ...botCredentials.parse({ provider, ...secrets }) }
        : { resellerId, reference, rail: purpose, ...gatewayCredentials.parse({ provider, ...secrets }) }
    credentialCache.set(reference, found)
    return found
  }

  return {
    async storeGateway(reseller_id, rail, { provider, ...secrets }) {
      return { provider, ...(await store({ reseller_id, purpose: rail, provider }, secrets)) }
    },
    async storeBot(reseller_id, { provider, ...secrets }) {
      return { provider, ...(await store({ reseller_id, purpose: 'bot', provider }, secrets)) }
    },
    async drop(reference) {
      await pool.query('delete from vault.reseller_credentials where reference = $1::text', [reference])
    },
    async gateway(reference) {
      const found = await find(reference)
      return found !== null && 'rail' in found ? found : null
    },
    async bot(reference) {
      const found = await find(reference)
      return found !== null && !('rail' in found) ? found : null
    },
  }
}

/** The name on a reseller's pay pages before it has set one. */
const defaultShopName = 'Shop'

/** Resellers' terms, read from the log: a table must not decide where customers' money goes. */
export const createTermsOf = (log: Pick<EventLog, 'readStreams'>): LogStates<Terms> =>
  createLogStates(log, (reseller) => ({ stream: termsStream(reseller as AccountId), fold: termsFold }))

/** The gateways of resellers: the reseller's terms name the gateway of a rail, the vault has its credentials. */
export const createResellerGateways = ({
  termsOf,
  credentials,
}: {
  readonly termsOf: LogStates<Terms>
  readonly credentials: Pick<ResellerCredentials, 'gateway'>
}): ResellerGateways => {
  const byId: ResellerGateways['byId'] = async (gatewayId) => {
    const found = await credentials.gateway(gatewayId)
    if (!found) return null
    const { resellerId, rail: _, reference, ...secrets } = found
    const { shop } = (await termsOf(resellerId)).state
    const stored: StoredGateway = {
      gatewayId: reference,
      owner: resellerId,
      merchantName: shop.merchantName ?? defaultShopName,
      credentials: secrets,
    }
    return stored
  }
  return {
    byId,
    forRail: async (owner, rail) => {
      const { gateways } = (await termsOf(owner)).state
      const activeGateway = gateways[rail as ResellerRail]
      return activeGateway ? byId(activeGateway.reference) : null
    },
  }
}
