import type { MonotonicClock } from '../../kernel/clock.ts'

/** What was not used is kept for so long. */
const keptMs = 1_000

/**
 * Keeps a process to a share of a core: it may begin something while it has used less processor time than the share of the
 * time that has passed.
 * @param parts.share of one core, 1 is all of it
 * @param parts.cpuMs processor time that this process has used so far
 */
export const createCpuBudget = (parts: {
  readonly share: number
  readonly monotonicMs: MonotonicClock
  readonly cpuMs: () => number
}): (() => boolean) => {
  const { share, monotonicMs, cpuMs } = parts
  let [lastMs, lastCpuMs] = [monotonicMs(), cpuMs()]
  let leftMs = share * keptMs
  return () => {
    const [nowMs, usedMs] = [monotonicMs(), cpuMs()]
    leftMs = Math.min(share * keptMs, leftMs + share * (nowMs - lastMs) - (usedMs - lastCpuMs))
    ;[lastMs, lastCpuMs] = [nowMs, usedMs]
    return share >= 1 || leftMs > 0
  }
}
