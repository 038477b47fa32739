import type pg from 'pg'
import type { Logger } from 'pino'
import type { Clock } from '../../kernel/clock.ts'
import { lockKeys } from '../../platform/postgres/lock-keys.ts'
import { openSession, type Session } from '../../platform/postgres/session.ts'
import { type Poller, startPoller } from '../../platform/work/poller.ts'
import type { Candidate } from './candidates.ts'
import type { ExitHealth, HealthChange, HealthTable } from './health.ts'
import type { LiveExits } from './live-exits.ts'
import { probe, probeKey } from './probe.ts'
import { forgetSessions } from './sticky.ts'

const everyMs = 2_000
const atOnce = 128
/** How often a process that does not look asks whether it may. */
const askEveryMs = 10_000
const forgetEveryMs = 60 * 60_000

/** Looks at an endpoint, and once more at once before it counts as dead. */
const lookAt = async ({ terms: { via }, login }: Candidate) => {
  const first = await probe({ via, login })
  return first.ok ? first : probe({ via, login })
}

const inParallel = async <Item>(
  items: readonly Item[],
  work: (item: Item) => Promise<void>,
): Promise<void> => {
  const waiting = items.values()
  const worker = async (): Promise<void> => {
    for (const item of waiting) await work(item)
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, worker))
}

/**
 * Looks at every endpoint of the exits every two seconds and tells all processes what changed. One process at a time does
 * it; when it ends, another one goes on. A dead exit is found within 7 seconds: 2 to the next look, 2.5 for each of two
 * attempts that nobody answers.
 */
export const startProbes = (deps: {
  readonly pool: pg.Pool
  readonly live: Pick<LiveExits, 'index'>
  readonly health: Pick<ExitHealth, 'isAlive'>
  readonly table: Pick<HealthTable, 'probed'>
  readonly clock: Clock
  readonly logger: Logger
}): Poller => {
  const { pool, live, health, table, clock, logger } = deps
  let session: Session | null = null
  let forgotAtMs = Number.NEGATIVE_INFINITY
  let askedAtMs = Number.NEGATIVE_INFINITY

  /** Whether this process is the one that looks. */
  const leads = async (): Promise<boolean> => {
    if (session && !session.ended.aborted) return true
    // Each attempt is a connection.
    if (clock() - askedAtMs < askEveryMs) return false
    askedAtMs = clock()
    const fresh = await openSession(pool, 'farebox-exit-probes')
    const { rows } = await fresh.client.query<{ taken: boolean }>(
      'select pg_try_advisory_lock($1::bigint) as taken',
      [lockKeys.probing],
    )
    if (rows[0]?.taken === true) session = fresh
    else await fresh.close()
    return rows[0]?.taken === true
  }

  const round = async (): Promise<void> => {
    const exits = [...live.index().byExit.values()].flatMap(([candidate]) => candidate ?? [])
    const places = Map.groupBy(exits, ({ terms: { via }, login }) => probeKey({ via, login }))
    const changes: HealthChange[] = []
    await inParallel([...places.values()], async (same) => {
      const { ok, problem } = await lookAt(same[0]!)
      for (const { exitId } of same)
        if (health.isAlive(exitId) !== ok) changes.push({ exitId, alive: ok, problem })
    })
    await table.probed(changes)
    for (const change of changes) logger.debug(change, 'an exit changed')
  }

  const poller = startPoller({
    name: 'exit-probes',
    intervalMs: everyMs,
    logger,
    work: async () => {
      if (!(await leads())) return
      await round()
      if (clock() - forgotAtMs < forgetEveryMs) return
      forgotAtMs = clock()
      await forgetSessions(pool, clock())
    },
  })
  return {
    ...poller,
    stop: async () => {
      await poller.stop()
      await session?.close()
    },
  }
}
