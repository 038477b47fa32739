import type { Registry } from 'prom-client'
import { books, hot } from '../../projections/groups.ts'
import type { MonotonicClock } from '../kernel/clock.ts'
import type { CrashHooks } from '../kernel/crash-points.ts'
import type { CloseStack } from '../kernel/resource-scope.ts'
import type { Core, Projecting, ServerCore } from '../platform/feature/core.ts'
import { createReads } from '../platform/projections/read-your-writes.ts'
import { createAssets } from '../platform/ui/assets.ts'

/** How long a list over all accounts waits for recent events, milliseconds. */
const caughtUpMs = 1_000

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
  return {
    ...core,
    ...parts,
    reads,
    bookReads: createReads({ progress, log, group: books.name }),
    caughtUp: async () => {
      await progress.reached(hot.name, await log.head(), caughtUpMs)
    },
    assets: createAssets(),
  }
}
