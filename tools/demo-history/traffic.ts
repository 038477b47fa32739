import type { Failure } from '../../src/domain/exits/connection-failures.ts'
import type { Meter } from '../../src/features/plans/meter-traffic.ts'
import type { MeteringHour } from '../../src/gateway/admit/budgets.ts'
import type { Usage } from '../../src/gateway/admit/record-usage.ts'
import type { PlanId } from '../../src/kernel/ids.ts'
import { type Day, type Random, shareOfHour } from './rhythm.ts'

/** A plan and its usage. */
export type Line = {
  readonly planId: PlanId
  readonly accountId: string
  /** Remaining traffic, bytes; infinity for time-based plans. */
  leftBytes: number
  /** The end of time-based plans, milliseconds since the epoch; else infinity. */
  endsMs: number
  /** Traffic on a day, bytes. */
  readonly dailyBytes: (day: Day) => number
  /** The time zone of its users, hours east of UTC. */
  readonly eastHours: number
  readonly hosts: readonly string[]
  /** The share of connections that fail. */
  readonly failing: number
  readonly random: Random
}

const failures: Readonly<Partial<Record<Failure, number>>> = {
  target_timeout: 30,
  exit_failed: 22,
  target_closed: 14,
  host_not_found: 10,
  no_exit: 8,
  target_refused: 7,
  wrong_credentials: 5,
  idle_timeout: 4,
}

/** Average traffic of a connection. */
const bytesAConnection = 25_000_000
const maxConnections = 40

/** Simulates the gateways: it counts the traffic of all plans per hour, and reports it. */
export const createTraffic = (dependencies: {
  readonly usage: Pick<Usage, 'traffic' | 'ended' | 'flush'>
  readonly meteringHour: Pick<MeteringHour, 'batchTaken' | 'batchReported'>
  readonly meter: Pick<Meter, 'report' | 'sweep'>
  /** Whether the account may use its plans. */
  readonly works: (accountId: string) => boolean
}) => {
  const { usage, meteringHour, meter, works } = dependencies
  const lines = new Map<string, Line>()
  let unreported = new Map<PlanId, number>()
  let sequence = 0

  const useLine = (line: Line, day: Day, hour: number, nowMs: number): void => {
    const { planId, random, hosts } = line
    const wantedBytes =
      line.dailyBytes(day) *
      shareOfHour(hour, line.eastHours) *
      random.spread(0.35) *
      (random.chance(0.06) ? 0 : 1)
    if (line.endsMs <= nowMs || !works(line.accountId)) return
    const bytes = Math.min(Math.round(wantedBytes), line.leftBytes)
    if (bytes < 100_000) return
    line.leftBytes -= bytes
    const uploadBytes = Math.round(bytes * (0.03 + 0.05 * random.next()))
    usage.traffic(planId, uploadBytes, bytes - uploadBytes)
    unreported.set(planId, (unreported.get(planId) ?? 0) + bytes)
    const connections = Math.min(maxConnections, 1 + Math.round(bytes / bytesAConnection))
    for (let n = 0; n < connections; n += 1) {
      const error = random.chance(line.failing)
        ? random.weighted<Failure>(failures as Record<Failure, number>)
        : null
      // The first hosts get most connections.
      const host = hosts[Math.floor(random.next() ** 2 * hosts.length)] ?? null
      usage.ended({ planId, error, host, bytes: error === null ? Math.round(bytes / connections) : 0 })
    }
  }

  return {
    /** Adds traffic to a plan, or adds a new plan. */
    add: (
      line: Omit<Line, 'leftBytes' | 'endsMs'>,
      bytes: number,
      endsMs = Number.POSITIVE_INFINITY,
    ): Line => {
      const existing = lines.get(line.planId) ?? { ...line, leftBytes: 0, endsMs }
      existing.leftBytes += bytes
      existing.endsMs = endsMs
      lines.set(line.planId, existing)
      return existing
    },
    /** Simulates an hour of all plans. */
    hour: (day: Day, hour: number, nowMs: number): void => {
      meteringHour.batchTaken()
      for (const line of lines.values()) useLine(line, day, hour, nowMs)
    },
    /** Reports the usage since the last call, and appends the due events to the log. */
    report: async (): Promise<void> => {
      if (unreported.size > 0) {
        sequence += 1
        const traffic = unreported
        unreported = new Map()
        await meter.report({ reporter: 'history', sequence, traffic })
      }
      await meter.sweep()
      meteringHour.batchTaken()
      meteringHour.batchReported()
      await usage.flush()
    },
  }
}

export type Traffic = ReturnType<typeof createTraffic>
