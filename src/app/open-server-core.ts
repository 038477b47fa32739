import type { Registry } from 'prom-client'
import { books, hot } from '../../projections/groups.ts'
import type { MonotonicClock } from '../kernel/clock.ts'
import type { CrashHooks } from '../kernel/crash-points.ts'
import type { CloseStack } from '../kernel/resource-scope.ts'
import type { Core, Projecting, ServerCore } from '../platform/feature/core.ts'
import { createKysely } from '../platform/postgres/kysely.ts'
import { createPool } from '../platform/postgres/pool.ts'
import { createReads } from '../platform/projections/read-your-writes.ts'
import { createAssets } from '../platform/ui/assets.ts'

/** How long a list over all accounts waits for recent events, milliseconds. */
const caughtUpMs = 1_000

/** The longest query of a probe, milliseconds: as long as `/readyz` waits for it. */
const probeQueryMs = 2_000
const probeConnections = 3

/** Extends the core with what the features of a server need. */
export const openServerCore = (
  core: Core,
  parts: {
    readonly projecting: Projecting
    readonly monotonicMs: MonotonicClock
    readonly registry: Registry
    readonly hooks: CrashHooks
    readonly closing: CloseStack
  },
): ServerCore => {
  const { log } = core
  const { progress } = parts.projecting
  const reads = createReads({ progress, log, group: hot.name })
  // Later reads of an account in this process wait for its events (docs/architecture.md, "Invariants").
  core.runner.onAppended(reads.known)
  const pool = createPool({
    url: core.postgresUrl,
    applicationName: 'farebox-probes',
    max: probeConnections,
    statementTimeoutMs: probeQueryMs,
    connectTimeoutMs: probeQueryMs,
  })
  parts.closing.add(() => pool.end())
  return {
    ...core,
    ...parts,
    probing: { pool, db: createKysely(pool) },
    reads,
    bookReads: createReads({ progress, log, group: books.name }),
    caughtUp: async () => {
      await progress.reached(hot.name, await log.head(), caughtUpMs)
    },
    assets: createAssets(),
  }
}
