import { LRUCache } from 'lru-cache'
import type pg from 'pg'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { growingCacheOptions } from '../../kernel/formats.ts'
import type { KeyId } from '../../kernel/ids.ts'
import type { Scheduler } from '../../platform/work/scheduler.ts'
import { worker } from '../../platform/work/worker.ts'

/** A key in constant use is written once in this time by each process. */
const writtenEveryMs = 60_000
/** Uses are written in batches: at most one statement in this time, for any number of keys and requests. */
const batchWindowMs = 10_000
export const keyUses = worker({
  name: 'key-uses',
  about: 'Writes when API keys were last used',
  trigger: { everyMs: batchWindowMs },
  per: 'process',
  process: 'server',
})
/** How far `lastUsedAt` may be behind the last use, seconds. */
export const lastUsedPrecisionS = (writtenEveryMs + batchWindowMs) / 1000
/** Keys whose last write is remembered. A key that was evicted is written again at its next use. */
const maxKeys = 20_000

export type KeyUses = {
  /** Records that a key was used now. Does not delay the request: the row is written later. */
  note(keyId: KeyId): void
  /** Writes the recorded uses now. */
  flush(): Promise<void>
  /** Writes the recorded uses and stops. */
  stop(): Promise<void>
}

/**
 * Stores when keys were last used. Outside the log, because it is useless after a year and would be most of the log.
 */
export const startKeyUses = (dependencies: {
  readonly scheduler: Scheduler
  readonly pool: pg.Pool
  readonly clock: Clock
}): KeyUses => {
  const { scheduler, pool, clock } = dependencies
  const writtenAtMs = new LRUCache<KeyId, number>(growingCacheOptions(maxKeys))
  let pendingUses = new Map<KeyId, number>()

  const write = async (): Promise<void> => {
    if (pendingUses.size === 0) return
    const uses = pendingUses
    pendingUses = new Map()
    try {
      await pool.query({
        name: 'write-key-uses',
        text: `insert into work.key_uses (key_id, last_used_at)
               select * from unnest($1::text[], $2::timestamptz[])
               on conflict (key_id) do update set last_used_at = excluded.last_used_at
               where work.key_uses.last_used_at < excluded.last_used_at`,
        values: [[...uses.keys()], [...uses.values()].map(isoTime)],
      })
    } catch (error) {
      // Retried with the next batch. Newer uses of the same keys take precedence.
      pendingUses = new Map([...uses, ...pendingUses])
      throw error
    }
  }
  const writing = scheduler.start(keyUses, write)

  return {
    note: (keyId) => {
      const nowMs = clock()
      const lastWrittenMs = writtenAtMs.get(keyId)
      // The absolute difference, so that a clock that was set back does not stop the recording.
      if (lastWrittenMs !== undefined && Math.abs(nowMs - lastWrittenMs) < writtenEveryMs) return
      if (pendingUses.size >= maxKeys && !pendingUses.has(keyId)) return
      writtenAtMs.set(keyId, nowMs)
      pendingUses.set(keyId, nowMs)
    },
    flush: writing.runNow,
    stop: async () => {
      await writing.runNow().catch(() => undefined) // logged by the scheduler; at most a minute of uses is lost
      await writing.stop()
    },
  }
}

/** When each of these keys was last used, ISO 8601 UTC, to `lastUsedPrecisionS`. Keys without a use are left out. */
export const lastUses = async (
  pool: pg.Pool,
  keyIds: readonly KeyId[],
): Promise<ReadonlyMap<KeyId, string>> => {
  const { rows } = await pool.query<{ key_id: KeyId; last_used_at: string }>(
    'select key_id, last_used_at from work.key_uses where key_id = any ($1::text[])',
    [keyIds],
  )
  return new Map(rows.map((row) => [row.key_id, row.last_used_at]))
}
