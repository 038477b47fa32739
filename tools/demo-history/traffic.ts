import type { Failure } from '../../src/domain/exits/connection-failures.ts'
import type { Meter } from '../../src/features/plans/meter-traffic.ts'
import type { Usage } from '../../src/gateway/admit/record-usage.ts'
import type { PlanId } from '../../src/kernel/ids.ts'
import { type Day, type Random, shareOfHour } from './rhythm.ts'

/** A plan that is used, and how. */
export type Line = {
  readonly planId: PlanId
  readonly accountId: string
  /** What is left of it, bytes; without end for plans by time. */
  leftBytes: number
  /** Of plans by time: milliseconds since the epoch. */
  endsMs: number
  /** What a day with this demand takes, bytes. */
  readonly dailyBytes: (day: Day) => number
  /** Where its users live, hours east of UTC. */
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

/** One connection counted stands for about this much. */
const bytesAConnection = 25_000_000
const maxConnections = 40

/** Gateways as the service sees them: what plans pass is counted by the hour and reported. */
export const createTraffic = (deps: {
  readonly usage: Pick<Usage, 'traffic' | 'ended' | 'flush'>
  readonly meter: Pick<Meter, 'report' | 'sweep'>
  /** Whether the account may use its plans. */
  readonly works: (accountId: string) => boolean
}) => {
  const { usage, meter, works } = deps
  const lines = new Map<string, Line>()
  let unreported = new Map<PlanId, number>()
  let sequence = 0

  const useLine = (line: Line, day: Day, hour: number, nowMs: number): void => {
    const { planId, random, hosts } = line
    const wanted =
      line.dailyBytes(day) *
      shareOfHour(hour, line.eastHours) *
      random.spread(0.35) *
      (random.chance(0.06) ? 0 : 1)
    if (line.endsMs <= nowMs || !works(line.accountId)) return
    const bytes = Math.min(Math.round(wanted), line.leftBytes)
    if (bytes < 100_000) return
    line.leftBytes -= bytes
    const up = Math.round(bytes * (0.03 + 0.05 * random.next()))
    usage.traffic(planId, up, bytes - up)
    unreported.set(planId, (unreported.get(planId) ?? 0) + bytes)
    const connections = Math.min(maxConnections, 1 + Math.round(bytes / bytesAConnection))
    for (let n = 0; n < connections; n += 1) {
      const error = random.chance(line.failing)
        ? random.weighted<Failure>(failures as Record<Failure, number>)
        : null
      // The first hosts are asked most.
      const host = hosts[Math.floor(random.next() ** 2 * hosts.length)] ?? null
      usage.ended({ planId, error, host, bytes: error === null ? Math.round(bytes / connections) : 0 })
    }
  }

  return {
    /** More units of a plan, or a plan that was not used before. */
    add: (
      line: Omit<Line, 'leftBytes' | 'endsMs'>,
      bytes: number,
      endsMs = Number.POSITIVE_INFINITY,
    ): Line => {
      const standing = lines.get(line.planId) ?? { ...line, leftBytes: 0, endsMs }
      standing.leftBytes += bytes
      standing.endsMs = endsMs
      lines.set(line.planId, standing)
      return standing
    },
    /** An hour of all plans. */
    hour: (day: Day, hour: number, nowMs: number): void => {
      for (const line of lines.values()) useLine(line, day, hour, nowMs)
    },
    /** Has counted what was used since this was last called, and writes to the log what is due. */
    report: async (): Promise<void> => {
      if (unreported.size > 0) {
        sequence += 1
        const traffic = unreported
        unreported = new Map()
        await meter.report({ reporter: 'history', sequence, traffic })
      }
      await meter.sweep()
      await usage.flush()
    },
  }
}

export type Traffic = ReturnType<typeof createTraffic>
