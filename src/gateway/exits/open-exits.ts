import { hostname } from 'node:os'
import type pg from 'pg'
import type { Logger } from 'pino'
import {
  createExitHealth,
  createExitLogins,
  createHealthTable,
  createLiveExits,
  createMachineHealth,
  createStickySessions,
  type LiveExits,
  probe,
} from '../../features/exits/index.ts'
import type { Clock } from '../../kernel/clock.ts'
import { StartRefused } from '../../platform/postgres/errors.ts'
import type { Vault } from '../../platform/vault/seal.ts'
import type { Scheduler } from '../../platform/work/scheduler.ts'
import { followExits } from '../workers.ts'
import { createExitPool, type ExitPool } from './exit-pool.ts'
import { type ProbeExit, startProbes } from './exit-probes.ts'

export type ExitParts = {
  readonly scheduler: Scheduler
  readonly pool: pg.Pool
  readonly vault: Vault
  /** Whether the sandbox's exits are used while there are no others. */
  readonly sandbox: boolean
  /** Targets on this machine are allowed through the sandbox's exits. */
  readonly allowLoopback: boolean
  /** Processes that share the exits' capacities. */
  readonly workers: number
  readonly clock: Clock
  /** From 0 up to, but not including, 1. */
  readonly random: () => number
  readonly logger: Logger
  /** The name of this machine; default: its host name. */
  readonly machine?: string
  /** The probe of an exit; default: connects to its endpoint, or checks the address of this machine. */
  readonly look?: ProbeExit
  readonly onDialled?: (exitId: string, outcome: 'connected' | 'failed', latencyMs: number) => void
}

/** The exits of one gateway process. */
export type OpenedExits = {
  readonly exits: ExitPool
  readonly live: LiveExits
  /** Whether targets on this machine are allowed: `allowLoopback`, while the only exits are the sandbox's. */
  allowsLoopback(): boolean
  /** For metrics: exits that take connections, and the dead ones among them. */
  counts(): { readonly serving: number; readonly dead: number }
  stop(): Promise<void>
}

/**
 * Loads the exits into memory, follows their changes, and takes part in probing them. The read tables must exist.
 * Rejects when Postgres does not answer.
 * @throws StartRefused for `allowLoopback` with exits other than the sandbox's
 */
export const openExits = async (parts: ExitParts): Promise<OpenedExits> => {
  const { scheduler, pool, vault, sandbox, clock, logger } = parts
  const table = createHealthTable(pool)
  const onError = (error: unknown): void =>
    logger.warn({ err: error }, 'Postgres did not take or tell what is known of exits: going on without')
  const health = createExitHealth({ table, onError })
  const sticky = createStickySessions({ pool, clock, onError })
  const logins = createExitLogins({ pool, vault })
  const live = createLiveExits({ pool, logins, health, sticky, sandbox })
  await live.refresh()
  if (parts.allowLoopback && live.hasOwn())
    throw new StartRefused(
      "FAREBOX_GATEWAY_ALLOW_LOOPBACK=on is for the sandbox's exits alone, and exits are imported here: take it out, or remove them with farebox exits remove",
    )
  let isReported = false
  const allowsLoopback = (): boolean => parts.allowLoopback && !live.hasOwn()
  const exitFollower = scheduler.start(followExits, async () => {
    await live.refresh()
    if (isReported || !parts.allowLoopback || allowsLoopback()) return
    isReported = true
    logger.error(
      "exits were imported: FAREBOX_GATEWAY_ALLOW_LOOPBACK=on is for the sandbox's exits alone and no longer holds here; take it out before the next start",
    )
  })
  const probes = startProbes({
    scheduler,
    pool,
    live,
    health,
    table,
    machine: createMachineHealth(pool, parts.machine ?? hostname()),
    probe: parts.look ?? probe,
    clock,
    logger,
  })
  return {
    exits: createExitPool({ ...parts, live, health, sticky }),
    live,
    allowsLoopback,
    counts: () => {
      const serving = new Set(live.index().serving.map(({ exitId }) => exitId))
      return { serving: serving.size, dead: [...serving].filter((id) => !health.isAlive(id)).length }
    },
    stop: async () => {
      await probes.stop()
      await exitFollower.stop()
      await Promise.all([health.flush(), sticky.flush()])
    },
  }
}
