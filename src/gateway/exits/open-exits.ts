import { BlockList, isIP } from 'node:net'
import { hostname } from 'node:os'
import type pg from 'pg'
import type { Logger } from 'pino'
import { addressesHost, whoamiHost } from '../../domain/shared/endpoint-fields.ts'
import {
  type Candidate,
  createExitHealth,
  createExitLogins,
  createHealthTable,
  createLiveExits,
  createMachineHealth,
  createStickySessions,
  deleteExpiredSessions,
  type ExitHealth,
  type HealthChange,
  type HealthTable,
  isLocal,
  type LiveExits,
  type MachineHealth,
  probe,
  probeKey,
  type SandboxExits,
} from '../../features/exits/index.ts'
import { type Clock, hasElapsed } from '../../kernel/clock.ts'
import { StartRefused } from '../../platform/postgres/errors.ts'
import type { Vault } from '../../platform/vault/seal.ts'
import type { RunningWorker, Scheduler } from '../../platform/work/scheduler.ts'
import type { Rental } from '../authenticate/rentals.ts'
import type { Exit } from '../gateway-ports.ts'
import { exitProbes, followExits, machineExitProbes } from '../workers.ts'
import { createExitPool, type ExitPool } from './exit-pool.ts'

type ExitDependencies = {
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
  readonly probe?: ProbeExit
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
export const openExits = async (dependencies: ExitDependencies): Promise<OpenedExits> => {
  const { scheduler, pool, vault, sandbox, clock, logger } = dependencies
  const table = createHealthTable(pool)
  const onError = (error: unknown): void =>
    logger.warn(
      { err: error },
      'Postgres does not answer: this process continues with the exit states in its memory',
    )
  const health = createExitHealth({ table, onError })
  const sticky = createStickySessions({ pool, clock, onError })
  const logins = createExitLogins({ pool, vault })
  const live = createLiveExits({ pool, logins, health, sticky, sandbox })
  await live.refresh()
  if (dependencies.allowLoopback && live.hasOwn())
    throw new StartRefused(
      "FAREBOX_GATEWAY_ALLOW_LOOPBACK=on is only for the sandbox's exits, but own exits are imported: unset it, or remove the exits with farebox exits remove",
    )
  let isReported = false
  const allowsLoopback = (): boolean => dependencies.allowLoopback && !live.hasOwn()
  const exitFollower = scheduler.start(followExits, async () => {
    await live.refresh()
    if (isReported || !dependencies.allowLoopback || allowsLoopback()) return
    isReported = true
    logger.error(
      "exits were imported: FAREBOX_GATEWAY_ALLOW_LOOPBACK=on is only for the sandbox's exits and has no effect any more; unset it before the next start",
    )
  })
  const probes = startProbes({
    scheduler,
    pool,
    live,
    health,
    table,
    machine: createMachineHealth(pool, dependencies.machine ?? hostname()),
    probe: dependencies.probe ?? probe,
    clock,
    logger,
  })
  return {
    exits: createExitPool({ ...dependencies, live, health, sticky }),
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

const maxParallelProbes = 128
/** How often a standby process tries to become the leader, milliseconds. */
const standbyMs = 10_000
const cleanupIntervalMs = 60 * 60_000

/** Probes an exit. A failed probe is repeated at once before the exit counts as dead. */
const probeTwice = async (probeExit: ProbeExit, { terms: { via }, login }: Candidate) => {
  const first = await probeExit({ via, login })
  return first.ok ? first : probeExit({ via, login })
}

/** Probes one exit. */
type ProbeExit = typeof probe

const inParallel = async <Item>(
  items: readonly Item[],
  work: (item: Item) => Promise<void>,
): Promise<void> => {
  const remaining = items.values()
  const worker = async (): Promise<void> => {
    for (const item of remaining) await work(item)
  }
  await Promise.all(Array.from({ length: Math.min(maxParallelProbes, items.length) }, worker))
}

/**
 * Probes every endpoint of the exits every two seconds (twenty while nothing happens) and reports changes to all processes. One leader does this; when
 * it ends, another process takes over. Each machine probes its local exits itself, because the result of another
 * machine does not apply to them. Under load a dead exit is found within 7 seconds: 2 until the next probe, and 2.5 for each of
 * two attempts without an answer.
 */
const startProbes = (dependencies: {
  readonly scheduler: Scheduler
  readonly pool: pg.Pool
  readonly live: Pick<LiveExits, 'index'>
  readonly health: Pick<ExitHealth, 'isAlive' | 'applyChanges'>
  readonly table: Pick<HealthTable, 'recordProbes'>
  readonly machine: MachineHealth
  readonly probe: ProbeExit
  readonly clock: Clock
  readonly logger: Logger
}): Pick<RunningWorker, 'stop'> => {
  const { scheduler, pool, live, health, table, machine, probe: probeExit, clock, logger } = dependencies
  let cleanedUpAtMs = Number.NEGATIVE_INFINITY

  const findChanges = async (exits: readonly Candidate[]): Promise<readonly HealthChange[]> => {
    const candidatesByProbe = Map.groupBy(exits, ({ terms: { via }, login }) => probeKey({ via, login }))
    const changes: HealthChange[] = []
    await inParallel([...candidatesByProbe.values()], async (sameEndpoint) => {
      const { ok, problem } = await probeTwice(probeExit, sameEndpoint[0]!)
      for (const { exitId } of sameEndpoint)
        if (health.isAlive(exitId) !== ok) changes.push({ exitId, alive: ok, problem })
    })
    for (const change of changes) logger.debug(change, 'an exit changed')
    return changes
  }
  const exitsOf = (local: boolean): readonly Candidate[] =>
    [...live.index().byExit.values()].flatMap(([candidate]) =>
      candidate && isLocal(candidate.terms.via) === local ? [candidate] : [],
    )
  /** Probes the exits of this machine. Reports only if there are any. */
  const probeLocalExits = async (): Promise<void> => {
    const exits = exitsOf(true)
    if (exits.length === 0) return
    health.applyChanges(await findChanges(exits))
    await machine.report(exits.map(({ exitId }) => exitId).filter((exitId) => !health.isAlive(exitId)))
  }

  const localProbes = scheduler.start(machineExitProbes, probeLocalExits)
  const leaderProbes = scheduler.lead(
    exitProbes,
    ({ repeat }) =>
      repeat(async () => {
        await table.recordProbes(await findChanges(exitsOf(false)))
        if (hasElapsed(cleanedUpAtMs, clock(), cleanupIntervalMs)) {
          cleanedUpAtMs = clock()
          await deleteExpiredSessions(pool, clock())
        }
        return null
      }),
    { standbyMs },
  )
  return {
    stop: async () => {
      await Promise.all([localProbes.stop(), leaderProbes.stop()])
    },
  }
}

/** A hash that selects the first exit, so that the rentals of a carrier are spread over its exits. */
const firstIndexOf = (text: string): number => {
  let hash = 0
  for (const character of text) hash = (hash * 31 + character.charCodeAt(0)) >>> 0
  return hash
}

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8, 'ipv4')
loopback.addAddress('::1', 'ipv6')
const isLoopback = (host: string): boolean =>
  isIP(host) !== 0 && loopback.check(host, isIP(host) === 6 ? 'ipv6' : 'ipv4')

/**
 * The exit of a rented address: its supplier's proxy, or the address itself on this machine.
 * @param sandbox null: there is no sandbox
 * @param allowLoopback allows targets on this machine through the sandbox, and through local proxies that simulate a
 * supplier
 */
export const addressExit = (
  { ip, endpoint }: Pick<Rental, 'ip' | 'endpoint'>,
  sandbox: Pick<SandboxExits, 'whoamiPort' | 'supplier'> | null,
  allowLoopback: boolean,
): Exit => {
  const exitId = `address ${ip}`
  if (endpoint === null)
    return {
      exitId,
      via: { kind: 'direct', localAddress: ip },
      sandbox: allowLoopback,
      udp: true,
      ...(sandbox && {
        sandboxHosts: { [`${whoamiHost}:80`]: { host: '127.0.0.1', port: sandbox.whoamiPort } },
      }),
    }
  const { protocol: kind, host, port, udp, login } = endpoint
  if (sandbox && host === addressesHost) {
    const simulatedProxy = { host: '127.0.0.1', port: sandbox.supplier.port }
    const via = { kind, ...simulatedProxy, username: ip, password: sandbox.supplier.password }
    return { exitId, via, sandbox: allowLoopback, udp }
  }
  const { username = null, password = null } = login ?? {}
  return {
    exitId,
    via: { kind, host, port, username, password },
    sandbox: allowLoopback && isLoopback(host),
    udp,
  }
}

/**
 * The exit of a rental: its own address, or for a mobile rental the next live exit of its carrier. It switches by the
 * interval, or each time the link is used. If the carrier has no live exit, the rental uses its own address.
 * @param own the exit of its own address
 */
export const rentalExit = (
  { proxyId, rotation }: Pick<Rental, 'proxyId' | 'rotation'>,
  own: Exit,
  ofCarrier: (carrierId: string) => readonly Exit[],
  nowMs: number,
): Exit => {
  if (rotation === null) return own
  const exits = [...ofCarrier(rotation.carrierId)].sort((one, other) => (one.exitId < other.exitId ? -1 : 1))
  const { everyMs, sinceMs, turns } = rotation
  const turn = everyMs === null ? turns : Math.floor((nowMs - sinceMs) / everyMs)
  return exits[(firstIndexOf(proxyId) + turn) % exits.length] ?? own
}
