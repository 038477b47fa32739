import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'

const tickMs = 100
/** A timer is late by that much on a machine that has time. */
const lateMs = 10
/** However many others want to run, a bound is at most so many times as long by the clock of the wall. */
const longest = 10

/** The share of the machine that a runnable process gets: 1 where nothing reports it. */
const shareNow = (): number => {
  try {
    const [, running = '1'] = /(\d+)\/\d+ \d+$/.exec(readFileSync('/proc/loadavg', 'latin1').trim()) ?? []
    return Math.min(1, Math.max(1 / longest, availableParallelism() / Number(running)))
  } catch {
    return 1
  }
}

const cpuMs = (): number => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1_000
}

let countedMs = 0
let last: { readonly atMs: number; readonly cpuMs: number } | null = null

const count = (): void => {
  const now = { atMs: performance.now(), cpuMs: cpuMs() }
  if (last) {
    const passedMs = now.atMs - last.atMs
    const ownMs = Math.max(tickMs + lateMs, now.cpuMs - last.cpuMs)
    countedMs += Math.min(passedMs, ownMs) * shareNow()
  } else setInterval(count, tickMs).unref()
  last = now
}

/**
 * Milliseconds of a clock that runs as fast as this machine: on an idle machine the wall clock. With eight
 * times as many runnable processes as processors it runs at an eighth of that, and on a stopped machine it
 * stops. It is for upper bounds; lower bounds use the wall clock.
 */
export const machineMs = (): number => {
  count()
  return countedMs
}
