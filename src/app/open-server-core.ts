import type { Registry } from 'prom-client'
import { books, hot } from '../../projections/groups.ts'
import type { MonotonicClock } from '../kernel/clock.ts'
import type { CrashHooks } from '../kernel/crash-points.ts'
import type { CloseStack } from '../kernel/resource-scope.ts'
import type { Core, Projecting, ServerCore } from '../platform/feature/core.ts'
import { createReads, type Reads } from '../platform/projections/read-your-writes.ts'
import { createAssets } from '../platform/ui/assets.ts'

/**
 * Later reads of an account in this process wait for the events of its commands (docs/architecture.md, "Invariants").
 */
const rememberPositions = (runner: Core['runner'], reads: Reads): Core['runner'] => ({
  ...runner,
  run: async (command) => {
    const outcome = await runner.run(command)
    if (command.account !== undefined && outcome.position !== null)
      reads.known(command.account, outcome.position)
    return outcome
  },
})

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
  return {
    ...core,
    ...parts,
    runner: rememberPositions(core.runner, reads),
    reads,
    bookReads: createReads({ progress, log, group: books.name }),
    caughtUp: async () => {
      await progress.reached(hot.name, await log.head(), caughtUpMs)
    },
    assets: createAssets(),
  }
}
