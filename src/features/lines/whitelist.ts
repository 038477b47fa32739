import ipaddr from 'ipaddr.js'
import type pg from 'pg'
import type { Targeting } from '../../domain/exits/exit-targeting.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { type AccountId, newId, type PlanId } from '../../kernel/ids.ts'
import { refuse } from '../../platform/http/errors.ts'
import { isAllowedAddress } from '../../platform/outgoing/target.ts'
import type { Keys } from '../../platform/vault/keys.ts'
import type { OwnPlan } from '../plans/index.ts'
import { createExitAvailability } from './exit-availability.ts'
import { type TargetingInput, targetingOf } from './targeting-input.ts'
import { createWhitelistSigner } from './whitelist-signer.ts'

/** Entries of one account, over all of its plans. */
export const maxWhitelist = 150
/** Entries of one call. */
export const maxWhitelistedAtOnce = 10

/** The widest networks: 256 addresses of IPv4, one customer's of IPv6. */
export const minPrefixLength = { ipv4: 24, ipv6: 64 } as const

export type WhitelistEntry = {
  readonly id: string
  /** E.g. `203.0.113.7/32`. */
  readonly cidr: string
  readonly label: string
  /** Where its connections go out; null: anywhere. */
  readonly targeting: Targeting | null
  readonly createdAt: string
  /** To the minute; null before the first use. */
  readonly lastUsedAt: string | null
}

export type NewEntry = Pick<WhitelistEntry, 'cidr' | 'label' | 'targeting'>

/** What a whitelist takes, for refusals. */
export const networkForm = `a public address or network, at most a /${minPrefixLength.ipv4} of IPv4 or a /${minPrefixLength.ipv6} of IPv6`

/**
 * The one text of a network: `203.0.113.7` is `203.0.113.7/32`. Null for what is none, is wider than a /24 (IPv6: /64), has
 * bits behind its prefix, or is private or reserved.
 */
export const networkOf = (text: string, allowLoopback: boolean): string | null => {
  const [address = '', bits, ...rest] = text.trim().split('/')
  if (rest.length > 0 || !ipaddr.isValid(address) || address.includes('%')) return null
  const parsed = ipaddr.process(address)
  const kind = parsed.kind()
  if (kind === 'ipv4' && !ipaddr.IPv4.isValidFourPartDecimal(address)) return null
  const full = kind === 'ipv4' ? 32 : 128
  const prefix = bits === undefined ? full : /^\d{1,3}$/.test(bits) ? Number(bits) : -1
  if (prefix < minPrefixLength[kind] || prefix > full) return null
  if (!isAllowedAddress(parsed.toString(), { allowLoopback })) return null
  const cidr = `${parsed.toString()}/${prefix}`
  const network =
    kind === 'ipv4' ? ipaddr.IPv4.networkAddressFromCIDR(cidr) : ipaddr.IPv6.networkAddressFromCIDR(cidr)
  return network.toString() === parsed.toString() ? cidr : null
}

export type AddAnswer =
  | { readonly outcome: 'added'; readonly entries: readonly WhitelistEntry[] }
  /** It belongs to another plan: to be moved where that is of the same account. */
  | { readonly outcome: 'taken'; readonly cidr: string; readonly movable: boolean }
  | { readonly outcome: 'full' }

export type Whitelist = {
  list(
    planId: PlanId,
    page: { readonly limit: number; readonly offset: number },
  ): Promise<{
    readonly entries: readonly WhitelistEntry[]
    readonly total: number
  }>
  /** All of them or none. A network that the plan has already gets the new label and targeting. */
  add(
    plan: { readonly planId: PlanId; readonly accountId: AccountId },
    entries: readonly NewEntry[],
    move: boolean,
  ): Promise<AddAnswer>
  /** False when the plan has no such entry. */
  remove(planId: PlanId, entryId: string): Promise<boolean>
}

type Row = {
  readonly entry_id: string
  readonly network: string
  readonly label: string
  readonly targeting: Targeting | null
  readonly created_at: string
  readonly last_used_at: string | null
}
const entryOf = (row: Row): WhitelistEntry => ({
  id: row.entry_id,
  cidr: row.network,
  label: row.label,
  targeting: row.targeting,
  createdAt: row.created_at,
  lastUsedAt: row.last_used_at,
})

const columns = 'entry_id, network::text, label, targeting, created_at, last_used_at'

/** The addresses that may use a plan without credentials. One network is of one plan, over all accounts. */
export const createWhitelist = ({
  pool,
  clock,
  keys,
}: {
  readonly pool: pg.Pool
  readonly clock: Clock
  readonly keys: Pick<Keys, 'master'>
}): Whitelist => ({
  list: async (planId, { limit, offset }) => {
    const [found, counted] = await Promise.all([
      pool.query<Row>(
        `select ${columns} from vault.whitelist where plan_id = $1::text
          order by entry_id desc limit $2::int offset $3::bigint`,
        [planId, limit, offset],
      ),
      pool.query<{ total: number }>(
        'select count(*) as total from vault.whitelist where plan_id = $1::text',
        [planId],
      ),
    ])
    return { entries: found.rows.map(entryOf), total: counted.rows[0]?.total ?? 0 }
  },
  add: async ({ planId, accountId }, entries, move) => {
    const client = await pool.connect()
    try {
      await client.query('begin')
      // One after another for an account, so that two calls cannot pass the limit together.
      await client.query('select pg_advisory_xact_lock(hashtextextended($1::text, 7230801))', [accountId])
      const networks = entries.map(({ cidr }) => cidr)
      const { rows: held } = await client.query<{ network: string; account_id: string; plan_id: string }>(
        'select network::text, account_id, plan_id from vault.whitelist where network = any ($1::cidr[]) for update',
        [networks],
      )
      const foreign = held.find((row) => row.plan_id !== planId && (row.account_id !== accountId || !move))
      const { rows: counted } = await client.query<{ total: number }>(
        'select count(*) as total from vault.whitelist where account_id = $1::text',
        [accountId],
      )
      const fresh = networks.length - held.length
      const isFull = (counted[0]?.total ?? 0) + fresh > maxWhitelist
      if (foreign || isFull) {
        await client.query('rollback')
        return foreign
          ? { outcome: 'taken', cidr: foreign.network, movable: foreign.account_id === accountId }
          : { outcome: 'full' }
      }
      const { rows } = await client.query<Row>(
        `insert into vault.whitelist as known (entry_id, account_id, plan_id, network, label, targeting, created_at)
         select given.entry_id, $1::text, $2::text, given.network, given.label, given.targeting, $7::timestamptz
           from unnest($3::text[], $4::cidr[], $5::text[], $6::jsonb[]) given (entry_id, network, label, targeting)
         on conflict (network) do update
           set label = excluded.label,
               targeting = excluded.targeting,
               last_used_at = case when known.plan_id = excluded.plan_id then known.last_used_at end,
               created_at = case when known.plan_id = excluded.plan_id then known.created_at else excluded.created_at end,
               plan_id = excluded.plan_id
           where known.account_id = excluded.account_id
         returning ${columns}`,
        [
          accountId,
          planId,
          entries.map(() => newId('wle')),
          networks,
          entries.map(({ label }) => label),
          entries.map(({ targeting }) => targeting && JSON.stringify(targeting)),
          isoTime(clock()),
        ],
      )
      if (rows.length < entries.length) {
        // Another account took one of them a moment ago.
        await client.query('rollback')
        const lost = networks.find((network) => !rows.some((row) => row.network === network)) ?? ''
        return { outcome: 'taken', cidr: lost, movable: false }
      }
      const { sign } = createWhitelistSigner(keys)
      await client.query(
        `update vault.whitelist w set signature = s.signature
           from unnest($1::text[], $2::bytea[]) as s (entry_id, signature) where w.entry_id = s.entry_id`,
        [
          rows.map(({ entry_id }) => entry_id),
          rows.map((row) => sign({ ...row, account_id: accountId, plan_id: planId })),
        ],
      )
      await client.query('commit')
      return { outcome: 'added', entries: rows.map(entryOf) }
    } catch (error) {
      await client.query('rollback').catch(() => undefined)
      throw error
    } finally {
      client.release()
    }
  },
  remove: async (planId, entryId) => {
    const { rowCount } = await pool.query(
      'delete from vault.whitelist where plan_id = $1::text and entry_id = $2::text',
      [planId, entryId],
    )
    return rowCount === 1
  },
})

/** An address or network as somebody names it; without targeting its connections go out anywhere. */
export type NamedEntry = {
  readonly cidr: string
  readonly label?: string | undefined
  readonly targeting?: TargetingInput | undefined
}

/**
 * Lets addresses use a plan without credentials: all that are named or none.
 * @param asked `move` takes entries from other plans of the account
 * @throws ApiError invalid_ip, invalid_targeting, invalid_exclude, invalid_udp, address_taken, whitelist_limit_reached
 */
export type AddToWhitelist = (
  plan: OwnPlan,
  accountId: AccountId,
  asked: { readonly entries: readonly NamedEntry[]; readonly move: boolean },
) => Promise<readonly WhitelistEntry[]>

export const createAddToWhitelist = (
  deps: Parameters<typeof createExitAvailability>[0] & {
    readonly whitelist: Whitelist
    /** Whether loopback addresses may be on a whitelist (FAREBOX_GATEWAY_ALLOW_LOOPBACK). */
    readonly allowLoopback: boolean
  },
): AddToWhitelist => {
  const { sellableTargetingOf, refuseUnavailable } = createExitAvailability(deps)
  return async (found, accountId, asked) => {
    const { generate, family } = sellableTargetingOf(found)
    const entries = new Map<string, NewEntry>()
    for (const [at, { cidr: text, label = '', targeting: wanted }] of asked.entries.entries()) {
      const cidr = networkOf(text, deps.allowLoopback)
      if (cidr === null) throw refuse('invalid_ip', `entries[${at}].cidr must be ${networkForm}`)
      const targeting = wanted === undefined ? null : targetingOf(wanted, generate.targeting)
      if (targeting !== null) await refuseUnavailable(targeting, family)
      entries.set(cidr, { cidr, label, targeting })
    }
    const plan = { planId: found.plan_id, accountId }
    const added = await deps.whitelist.add(plan, [...entries.values()], asked.move)
    if (added.outcome === 'full')
      throw refuse(
        'whitelist_limit_reached',
        `an account has at most ${maxWhitelist} addresses on whitelists`,
      )
    if (added.outcome === 'taken')
      throw refuse('address_taken', `${added.cidr} is on the whitelist of another plan`, {
        movable: added.movable,
      })
    return added.entries
  }
}
