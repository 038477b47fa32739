import { LRUCache } from 'lru-cache'
import type pg from 'pg'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { growingCacheOptions } from '../../kernel/formats.ts'
import type { KeyId } from '../../kernel/ids.ts'
import type { Scheduler } from '../../platform/work/scheduler.ts'
import { worker } from '../../platform/work/worker.ts'

/** A key that is used all the time is written once in this time by each process. */
const writtenEveryMs = 60_000
/** How long uses gather: at most one statement in this time, however many keys and requests there are. */
const batchWindowMs = 10_000
export const keyUses = worker({
  name: 'key-uses',
  about: 'Writes when API keys were last used',
  trigger: { everyMs: batchWindowMs },
  per: 'process',
  process: 'server',
})
/** How far behind the last use `lastUsedAt` may be. */
export const lastUsedPrecisionS = (writtenEveryMs + batchWindowMs) / 1000
/** Keys whose last write is remembered; one that is forgotten is written again at its next use. */
const maxKeys = 20_000

export type KeyUses = {
  /** Notes that a key was used just now. Costs the request nothing: it is written beside it. */
  note(keyId: KeyId): void
  /** Writes what is noted now. */
  flush(): Promise<void>
  /** Writes what is noted and ends. */
  stop(): Promise<void>
}

/** When keys were last used: beside the log, for it is of use to nobody in a year and would be most of it. */
export const startKeyUses = (deps: {
  readonly scheduler: Scheduler
  readonly pool: pg.Pool
  readonly clock: Clock
}): KeyUses => {
  const { scheduler, pool, clock } = deps
  const written = new LRUCache<KeyId, number>(growingCacheOptions(maxKeys))
  let noted = new Map<KeyId, number>()

  const write = async (): Promise<void> => {
    if (noted.size === 0) return
    const uses = noted
    noted = new Map()
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
      // They are written with the next ones; those that were used since are newer.
      noted = new Map([...uses, ...noted])
      throw error
    }
  }
  const writing = scheduler.start(keyUses, write)

  return {
    note: (keyId) => {
      const nowMs = clock()
      const last = written.get(keyId)
      // A clock that was set back does not silence a key.
      if (last !== undefined && Math.abs(nowMs - last) < writtenEveryMs) return
      if (noted.size >= maxKeys && !noted.has(keyId)) return
      written.set(keyId, nowMs)
      noted.set(keyId, nowMs)
    },
    flush: writing.runNow,
    stop: async () => {
      await writing.runNow().catch(() => undefined) // logged by the scheduler; at most a minute of uses is lost
      await writing.stop()
    },
  }
}

/** When each of these keys was last used, ISO 8601 UTC, to `lastUsedPrecisionS`; those that never were are left out. */
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
