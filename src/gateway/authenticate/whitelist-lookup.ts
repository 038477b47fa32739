import ipaddr from 'ipaddr.js'
import { LRUCache } from 'lru-cache'
import type pg from 'pg'
import type { Logger } from 'pino'
import type { Targeting } from '../../domain/exits/exit-targeting.ts'
import { createWhitelistSigner, minPrefixLength, type SignedEntry } from '../../features/lines/index.ts'
import { type Clock, hasElapsed, isoTime } from '../../kernel/clock.ts'
import type { PlanId } from '../../kernel/ids.ts'
import type { Keys } from '../../platform/vault/keys.ts'

/** How long an address may still connect that was taken off, and how soon one may that was put on. */
const heldMs = 1_000
/** What is known of an address while Postgres does not answer: as long as leases last. */
const staleMs = 30_000
const maxAddresses = 50_000
const noteEveryMs = 60_000

/** What an address gets without credentials. */
export type Whitelisted = {
  readonly planId: PlanId
  /** Where its connections go out; null: anywhere. */
  readonly targeting: Targeting | null
}

export type WhitelistLookup = {
  /**
   * What an address gets, by the narrowest network; null: nothing. As of at most a second ago, or of half a minute while
   * Postgres does not answer.
   */
  find(source: string): Promise<Whitelisted | null>
}

type EntryRow = SignedEntry & {
  readonly entry_id: string
  readonly plan_id: PlanId
  readonly signature: Buffer | null
}

/**
 * For gateways: what was looked up is held for a second, and a use is noted once a minute. An entry that the service has not
 * written so lets nobody in, and is logged.
 */
export const createWhitelistLookup = (deps: {
  readonly pool: pg.Pool
  readonly keys: Pick<Keys, 'master'>
  readonly clock: Clock
  readonly logger: Pick<Logger, 'error'>
  readonly onError: (error: unknown) => void
}): WhitelistLookup => {
  const { pool, clock, logger, onError } = deps
  const { isSigned } = createWhitelistSigner(deps.keys)
  const held = new LRUCache<string, { readonly found: Whitelisted | null; readonly atMs: number }>({
    max: maxAddresses,
  })
  const noted = new LRUCache<string, number>({ max: maxAddresses })

  const note = (entryId: string): void => {
    if (!hasElapsed(noted.get(entryId) ?? Number.NEGATIVE_INFINITY, clock(), noteEveryMs)) return
    noted.set(entryId, clock())
    pool
      .query('update vault.whitelist set last_used_at = $2::timestamptz where entry_id = $1::text', [
        entryId,
        isoTime(clock()),
      ])
      .catch(onError)
  }

  const read = async (source: string): Promise<Whitelisted | null> => {
    const { rows } = await pool.query<EntryRow>({
      name: 'whitelisted',
      // Networks are at most so wide: each is looked up by the unique index.
      text: `select entry_id, account_id, plan_id, network::text, targeting, signature from vault.whitelist
              where network = any (array(
                select network(set_masklen($1::inet, bits))
                  from generate_series(case family($1::inet) when 4 then ${minPrefixLength.ipv4} else ${minPrefixLength.ipv6} end,
                                       case family($1::inet) when 4 then 32 else 128 end) bits))
              order by masklen(vault.whitelist.network) desc`,
      values: [source],
    })
    const row = rows.find(isSigned)
    for (const { entry_id: entryId } of rows.slice(0, row && rows.indexOf(row)))
      logger.error({ entryId }, 'an entry of a whitelist was written by somebody else than the service')
    if (row === undefined) return null
    note(row.entry_id)
    return { planId: row.plan_id, targeting: row.targeting }
  }

  return {
    find: async (source) => {
      const known = held.get(source)
      const nowMs = clock()
      if (known && !hasElapsed(known.atMs, nowMs, heldMs)) return known.found
      if (!ipaddr.isValid(source)) return null
      try {
        const found = await read(source)
        held.set(source, { found, atMs: clock() })
        return found
      } catch (error) {
        if (known && nowMs - known.atMs < staleMs) return known.found
        throw error
      }
    },
  }
}
