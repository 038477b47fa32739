import ipaddr from 'ipaddr.js'
import { LRUCache } from 'lru-cache'
import type pg from 'pg'
import type { Logger } from 'pino'
import type { Targeting } from '../../domain/exits/line.ts'
import { type EntryRow, entryColumns, type IsAllowed, minPrefixLength } from '../../features/lines/index.ts'
import { type Clock, hasElapsed, isoTime, type MonotonicClock } from '../../kernel/clock.ts'
import type { PlanId } from '../../kernel/ids.ts'
import { createCachedLookup } from './cached-reads.ts'

const maxAddresses = 50_000
const recordEveryMs = 60_000

/** The access of an address without credentials. */
export type Whitelisted = {
  readonly entryId: string
  readonly planId: PlanId
  /** The targeting of its connections; null: none. */
  readonly targeting: Targeting | null
}

type WhitelistLookup = {
  /**
   * The access of an address, from the entry with the narrowest network; null: none. As of at most a second ago, or of
   * half a minute while Postgres does not answer.
   */
  find(source: string): Promise<Whitelisted | null>
}

/**
 * Look-ups for gateways. Answers are cached for a second, and the use of an entry is recorded once a minute. An entry
 * that differs from the log gives no access and is logged.
 */
export const createWhitelistLookup = (dependencies: {
  readonly pool: pg.Pool
  readonly isAllowed: IsAllowed
  readonly clock: Clock
  readonly monotonicMs: MonotonicClock
  readonly logger: Pick<Logger, 'error'>
  readonly onError: (error: unknown) => void
}): WhitelistLookup => {
  const { pool, isAllowed, clock, monotonicMs, logger, onError } = dependencies
  const recordedUses = new LRUCache<string, number>({ max: maxAddresses })

  const recordUse = (entryId: string): void => {
    if (!hasElapsed(recordedUses.get(entryId) ?? Number.NEGATIVE_INFINITY, clock(), recordEveryMs)) return
    recordedUses.set(entryId, clock())
    pool
      .query('update vault.whitelist set last_used_at = $2::timestamptz where entry_id = $1::text', [
        entryId,
        isoTime(clock()),
      ])
      .catch(onError)
  }

  /** The entries of the networks that contain an address, the narrowest first. */
  const rowsOf = async (source: string): Promise<readonly EntryRow[]> => {
    const { rows } = await pool.query<EntryRow>({
      name: 'whitelisted',
      // Network sizes are limited, so each candidate network is looked up by the unique index.
      text: `select ${entryColumns} from vault.whitelist
              where network = any (array(
                select network(set_masklen($1::inet, bits))
                  from generate_series(case family($1::inet) when 4 then ${minPrefixLength.ipv4} else ${minPrefixLength.ipv6} end,
                                       case family($1::inet) when 4 then 32 else 128 end) bits))
              order by masklen(vault.whitelist.network) desc`,
      values: [source],
    })
    return rows
  }

  /** The first entry that the log allows, and the entries before it, which the log does not allow. */
  const findAllowed = async (source: string) => {
    const refused: EntryRow[] = []
    for (const row of await rowsOf(source)) {
      if (await isAllowed(row)) return { row, refused }
      refused.push(row)
    }
    return { row: null, refused }
  }

  const read = async (source: string): Promise<Whitelisted | null> => {
    const first = await findAllowed(source)
    // A row may have been changed or removed after it was read. The second read detects this.
    const { row, refused } = first.refused.length === 0 ? first : await findAllowed(source)
    for (const { entry_id: entryId, account_id: accountId } of refused)
      logger.error({ entryId, accountId }, 'the log does not allow an entry of a whitelist')
    if (row === null) return null
    recordUse(row.entry_id)
    return { entryId: row.entry_id, planId: row.plan_id, targeting: row.targeting }
  }

  const lookup = createCachedLookup<string, Whitelisted>({ read, max: maxAddresses, monotonicMs })
  return { find: async (source) => (ipaddr.isValid(source) ? lookup.find(source) : null) }
}
