import { isDeepStrictEqual } from 'node:util'
import ipaddr from 'ipaddr.js'
import type pg from 'pg'
import type { Targeting } from '../../domain/exits/line.ts'
import { commitmentsOf, decideAllowance, whitelistRef } from '../../domain/plans/whitelist.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { Cause } from '../../kernel/event.ts'
import type { AccountId, PlanId } from '../../kernel/ids.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import { handle, readState } from '../../platform/commands/command.ts'
import { refuse } from '../../platform/http/errors.ts'
import { isAllowedAddress } from '../../platform/outgoing/target.ts'
import { inTransaction } from '../../platform/postgres/transaction.ts'
import type { MasterKey } from '../../platform/vault/keys.ts'
import { createRowSigner, freshSalt } from '../../platform/vault/seal.ts'
import type { VerifiedPlan } from '../plans/index.ts'
import { createExitAvailability, type TargetingInput, targetingOf } from './targeting-input.ts'
import type { WhitelistRemovals } from './whitelist-commitments.ts'
import { type EntryRow, entryColumns, entryCommitment } from './whitelist-commitments.ts'

/** The most entries of an account, over all of its plans. */
export const maxWhitelist = 150
/** The most entries of one call. */
export const maxWhitelistedAtOnce = 10

/** The largest networks: 256 IPv4 addresses, or one customer's IPv6 network. */
export const minPrefixLength = { ipv4: 24, ipv6: 64 } as const

export type WhitelistEntry = {
  readonly id: string
  /** E.g. `203.0.113.7/32`. */
  readonly cidr: string
  readonly label: string
  /** The targeting of its connections; null: anywhere. */
  readonly targeting: Targeting | null
  readonly createdAt: string
  /** To the minute; null before the first use. */
  readonly lastUsedAt: string | null
}

export type NewEntry = Pick<WhitelistEntry, 'cidr' | 'label' | 'targeting'>

/** The accepted networks, for refusals. */
export const networkForm = `a public address or network, at most a /${minPrefixLength.ipv4} of IPv4 or a /${minPrefixLength.ipv6} of IPv6`

/**
 * The canonical text of a network: `203.0.113.7` is `203.0.113.7/32`. Null if it is invalid, wider than a /24 (IPv6:
 * /64), has bits after its prefix, or is private or reserved.
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

type AddAnswer =
  | { readonly outcome: 'added'; readonly entries: readonly WhitelistEntry[] }
  /** It belongs to another plan; `movable` if that plan is of the same account. */
  | { readonly outcome: 'taken'; readonly cidr: string; readonly movable: boolean }
  | { readonly outcome: 'full' }

type PlanRef = { readonly planId: PlanId; readonly accountId: AccountId }

export type Whitelist = {
  list(
    planId: PlanId,
    page: { readonly limit: number; readonly offset: number },
  ): Promise<{
    readonly entries: readonly WhitelistEntry[]
    readonly total: number
  }>
  /** All of them or none. A network that the plan already has gets the new label and targeting. */
  add(plan: PlanRef, entries: readonly NewEntry[], move: boolean, cause: Cause): Promise<AddAnswer>
  /** False when the plan has no such entry. */
  remove(plan: PlanRef, entryId: string, cause: Cause): Promise<boolean>
}

/** Another account took one of the networks in the meantime. */
class NetworkConflict extends Error {}

type Row = EntryRow & {
  readonly label: string
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

const columns = `${entryColumns}, label, created_at, last_used_at`

/** A requested network and its current entry in any account; null: none. */
type NetworkSlot = { readonly network: string; readonly entry: EntryRow | null }

type NetworkSlots = { readonly slots: readonly NetworkSlot[]; readonly total: number }

/** Whether the new networks exceed the account's limit. */
const isFull = ({ slots, total }: NetworkSlots): boolean =>
  total + slots.filter(({ entry }) => entry === null).length > maxWhitelist

/** The networks in the given order, and the number of the account's entries. */
const readSlots = async (
  client: Pick<pg.ClientBase, 'query'>,
  accountId: AccountId,
  newEntries: readonly NewEntry[],
): Promise<NetworkSlots> => {
  const { rows } = await client.query<EntryRow & { readonly total: number }>(
    `select w.entry_id, w.account_id, w.plan_id, w.targeting, w.salt, g.network::text,
            (select count(*) from vault.whitelist where account_id = $1::text) as total
       from unnest($2::cidr[]) with ordinality as g (network, at) left join vault.whitelist w on w.network = g.network
      order by g.at`,
    [accountId, newEntries.map(({ cidr }) => cidr)],
  )
  return {
    slots: rows.map(({ total: _, ...entry }) => ({
      network: entry.network,
      entry: entry.entry_id === null ? null : entry,
    })),
    total: rows[0]?.total ?? 0,
  }
}

/** Whether a plan has this entry on its whitelist. */
export const isEntryOfPlan = async (pool: pg.Pool, planId: PlanId, entryId: string): Promise<boolean> => {
  const { rowCount } = await pool.query(
    'select from vault.whitelist where entry_id = $1::text and plan_id = $2::text',
    [entryId, planId],
  )
  return rowCount === 1
}

/** The networks of entries of an account's whitelists, e.g. `203.0.113.7/32`. Removed entries have none. */
export const networksOf = async (
  pool: pg.Pool,
  accountId: AccountId,
  entryIds: readonly string[],
): Promise<ReadonlyMap<string, string>> => {
  if (entryIds.length === 0) return new Map()
  const { rows } = await pool.query<{ entry_id: string; network: string }>({
    name: 'whitelist-networks',
    text: `select entry_id, network::text from vault.whitelist
            where account_id = $1::text and entry_id = any ($2::text[])`,
    values: [accountId, entryIds],
  })
  return new Map(rows.map(({ entry_id: id, network }) => [id, network]))
}

/** The id of the entry of a network. It is in events, so only the master key leads from it to the address. */
export type EntryIdOf = (accountId: AccountId, network: string) => string

/**
 * An entry that is removed and added again has the same id, so that its traffic budgets and their counted bytes remain.
 */
export const createEntryIds = (master: MasterKey): EntryIdOf => {
  const { sign } = createRowSigner(master, 'whitelist entry id v1')
  return (accountId, network) => `wle_${sign([accountId, network]).toString('hex').slice(0, 32)}`
}

/**
 * The addresses that may use a plan without credentials. A network belongs to one plan, over all accounts.
 *
 * An event allows an entry before its row is written. A removal is stored in the transaction that deletes or changes
 * the row, and is in the log before the answer (whitelist-commitments.ts). So the log allows every row at any time, and a
 * crash leaves nothing that grants access.
 */
export const createWhitelist = ({
  pool,
  clock,
  runner,
  removals,
  entryIdOf,
}: {
  readonly pool: pg.Pool
  readonly clock: Clock
  readonly runner: CommandRunner
  readonly removals: WhitelistRemovals
  readonly entryIdOf: EntryIdOf
}): Whitelist => {
  /** Serializes the changes of an account, so that two calls cannot exceed the limit together. */
  const changeAccount = <Value>(
    accountId: AccountId,
    change: (client: pg.PoolClient) => Promise<Value>,
  ): Promise<Value> =>
    inTransaction(pool, async (client) => {
      await client.query('select pg_advisory_xact_lock(hashtextextended($1::text, 7230801))', [accountId])
      return change(client)
    })

  /** Writes rows that the log allows; null: an entry changed since it was read, or the whitelist is full. */
  const write = (
    { planId, accountId }: PlanRef,
    entries: readonly NewEntry[],
    before: readonly NetworkSlot[],
    rows: readonly EntryRow[],
    removedCommitments: readonly string[],
  ): Promise<readonly Row[] | null> =>
    changeAccount(accountId, async (client) => {
      const now = await readSlots(client, accountId, entries)
      if (isFull(now) || !isDeepStrictEqual(now.slots, before)) return null
      await removals.add(client, accountId, removedCommitments)
      const written = await client.query<Row>(
        `insert into vault.whitelist as known (entry_id, account_id, plan_id, network, label, targeting, salt, created_at)
         select given.entry_id, $1::text, $2::text, given.network, given.label, given.targeting, given.salt, $8::timestamptz
           from unnest($3::text[], $4::cidr[], $5::text[], $6::jsonb[], $7::bytea[])
                  given (entry_id, network, label, targeting, salt)
         on conflict (network) do update
           set label = excluded.label,
               targeting = excluded.targeting,
               salt = excluded.salt,
               last_used_at = case when known.plan_id = excluded.plan_id then known.last_used_at end,
               created_at = case when known.plan_id = excluded.plan_id then known.created_at else excluded.created_at end,
               plan_id = excluded.plan_id
           where known.entry_id = excluded.entry_id
         returning ${columns}`,
        [
          accountId,
          planId,
          rows.map(({ entry_id }) => entry_id),
          rows.map(({ network }) => network),
          entries.map(({ label }) => label),
          rows.map(({ targeting }) => targeting && JSON.stringify(targeting)),
          rows.map(({ salt }) => salt),
          isoTime(clock()),
        ],
      )
      if (written.rows.length < rows.length) throw new NetworkConflict()
      return written.rows
    }).catch((error: unknown) => {
      if (error instanceof NetworkConflict) return null
      throw error
    })

  return {
    list: async (planId, { limit, offset }) => {
      const [found, countResult] = await Promise.all([
        pool.query<Row>(
          `select ${columns} from vault.whitelist where plan_id = $1::text
            order by created_at desc, entry_id limit $2::int offset $3::bigint`,
          [planId, limit, offset],
        ),
        pool.query<{ total: number }>(
          'select count(*) as total from vault.whitelist where plan_id = $1::text',
          [planId],
        ),
      ])
      return { entries: found.rows.map(entryOf), total: countResult.rows[0]?.total ?? 0 }
    },

    add: async (plan, entries, move, cause) => {
      const { planId, accountId } = plan
      for (;;) {
        const before = await readSlots(pool, accountId, entries)
        const { slots } = before
        const isOccupied = ({ entry }: NetworkSlot) =>
          entry !== null && entry.plan_id !== planId && (entry.account_id !== accountId || !move)
        const occupied = slots.find(isOccupied)
        if (occupied)
          return {
            outcome: 'taken',
            cidr: occupied.network,
            movable: occupied.entry?.account_id === accountId,
          }
        if (isFull(before)) return { outcome: 'full' }

        const wanted = slots.map(({ network, entry }, at) => {
          const row: EntryRow = {
            entry_id: entry?.entry_id ?? entryIdOf(accountId, network),
            account_id: accountId,
            plan_id: planId,
            network,
            targeting: entries[at]!.targeting,
            salt: freshSalt(),
          }
          const commitment = entryCommitment(row)!
          // With the row's salt, so that an unchanged entry has the same commitment.
          const unchanged = { ...row, salt: entry?.salt ?? null }
          return {
            row,
            unchanged,
            entry: { entryId: row.entry_id, planId, commitment },
            known: entryCommitment(unchanged),
          }
        })
        const { results } = await handle(
          runner,
          { ...cause, name: 'allow-networks' },
          whitelistRef(accountId),
          (state) => decideAllowance(state, wanted),
        )
        const changed = wanted
          .map((each, at) => ({ ...each, ...results[at]! }))
          .filter(({ isKnown }) => !isKnown)
        const rows = await write(
          plan,
          entries,
          slots,
          wanted.map(({ row, unchanged }, at) => (results[at]!.isKnown ? unchanged : row)),
          changed.flatMap(({ former }) => former),
        )
        if (rows !== null) {
          await removals.append(accountId, cause)
          return { outcome: 'added', entries: rows.map(entryOf) }
        }
        await removals.appendUnwritten(
          accountId,
          changed.map(({ entry }) => entry.commitment),
          cause,
        )
      }
    },

    remove: async ({ planId, accountId }, entryId, cause) => {
      const allowed = await readState(runner, { ...cause, name: 'read-whitelist' }, whitelistRef(accountId))
      const removed = await changeAccount(accountId, async (client) => {
        const { rows } = await client.query<EntryRow>(
          `delete from vault.whitelist
            where account_id = $1::text and plan_id = $2::text and entry_id = $3::text returning ${entryColumns}`,
          [accountId, planId, entryId],
        )
        const [row] = rows
        if (row === undefined) return false
        const last = entryCommitment(row)
        const removedCommitments = new Set([
          ...commitmentsOf(allowed, entryId),
          ...(last === null ? [] : [last]),
        ])
        await removals.add(client, accountId, [...removedCommitments])
        return true
      })
      await removals.append(accountId, cause)
      return removed
    },
  }
}

/** A requested address or network. Without targeting its connections may go out anywhere. */
type NamedEntry = {
  readonly cidr: string
  readonly label?: string | undefined
  readonly targeting?: TargetingInput | undefined
}

/**
 * Allows addresses to use a plan without credentials: all of them or none.
 * @param request `move` takes entries from other plans of the account
 * @throws ApiError invalid_ip, invalid_targeting, invalid_exclude, invalid_udp, address_taken, whitelist_limit_reached
 */
export type AddToWhitelist = (
  plan: VerifiedPlan,
  accountId: AccountId,
  request: { readonly entries: readonly NamedEntry[]; readonly move: boolean },
  cause: Cause,
) => Promise<readonly WhitelistEntry[]>

export const createAddToWhitelist = (
  dependencies: Parameters<typeof createExitAvailability>[0] & {
    readonly whitelist: Whitelist
    /** Whether loopback addresses are allowed on a whitelist (FAREBOX_GATEWAY_ALLOW_LOOPBACK). */
    readonly allowLoopback: boolean
  },
): AddToWhitelist => {
  const { offeredTargetingOf: sellableTargetingOf, refuseUnavailable } = createExitAvailability(dependencies)
  return async (found, accountId, request, cause) => {
    const { generate, family } = sellableTargetingOf(found)
    const entries = new Map<string, NewEntry>()
    for (const [at, { cidr: text, label = '', targeting: wanted }] of request.entries.entries()) {
      const cidr = networkOf(text, dependencies.allowLoopback)
      if (cidr === null) throw refuse('invalid_ip', `entries[${at}].cidr must be ${networkForm}`)
      const targeting = wanted === undefined ? null : targetingOf(wanted, generate.targeting)
      if (targeting !== null) await refuseUnavailable(targeting, family)
      entries.set(cidr, { cidr, label, targeting })
    }
    const plan = { planId: found.planId, accountId }
    const added = await dependencies.whitelist.add(plan, [...entries.values()], request.move, cause)
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
