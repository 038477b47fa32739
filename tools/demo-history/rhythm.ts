import { hash } from 'node:crypto'
import type { Clock } from '../../src/kernel/clock.ts'

/** The service's clock during the history. `goTo` sets it, each read advances it a little, and it never goes back. */
export type HistoryClock = {
  readonly read: Clock
  /** The first instant (midnight UTC) and the last one, milliseconds since the epoch. */
  readonly firstMs: number
  readonly endMs: number
  /** Sets the clock to `ms`. Reads then advance it up to `limitMs`. Neither exceeds the end. */
  goTo(ms: number, limitMs: number): void
}

/** The advance of each read, milliseconds, so that concurrent actions have different times. */
const stepMs = 3

export const createHistoryClock = (firstMs: number, endMs: number): HistoryClock => {
  let nowMs = firstMs
  let limitMs = endMs
  return {
    firstMs,
    endMs,
    read: () => {
      nowMs = Math.min(nowMs + stepMs, limitMs)
      return nowMs
    },
    goTo: (ms, maxMs) => {
      limitMs = Math.max(nowMs, Math.min(maxMs, endMs))
      nowMs = Math.max(nowMs, Math.min(ms, limitMs))
    },
  }
}

/** A seeded random generator. The same seed gives the same history, also with concurrent actions. */
export type Random = {
  /** From 0 up to, not including, 1. */
  next(): number
  /** An integer from `min` to `max`, both included. */
  whole(min: number, max: number): number
  /** True with this probability. */
  chance(probability: number): boolean
  pick<Item>(items: readonly Item[]): Item
  /** One of the keys, with a probability proportional to its weight. */
  weighted<Key extends string>(weights: Readonly<Record<Key, number>>): Key
  /** A log-normal value with median 1: most values are near 1, a few far above. */
  spread(sigma: number): number
}

/** @param seed any text */
export const createRandom = (seed: string): Random => {
  let state = Number.parseInt(hash('sha256', seed, 'hex').slice(0, 8), 16)
  /** Mulberry32: hashes a counter. */
  const next = (): number => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
  const whole: Random['whole'] = (min, max) => min + Math.floor(next() * (max - min + 1))
  return {
    next,
    whole,
    chance: (probability) => next() < probability,
    pick: (items) => {
      const item = items[whole(0, items.length - 1)]
      if (item === undefined) throw new RangeError('there is nothing to pick from')
      return item
    },
    weighted: <Key extends string>(weights: Readonly<Record<Key, number>>) => {
      const entries = Object.entries<number>(weights)
      let remaining = next() * entries.reduce((sum, [, weight]) => sum + weight, 0)
      const found = entries.find(([, weight]) => {
        remaining -= weight
        return remaining < 0
      })
      return (found ?? entries[0])?.[0] as Key
    },
    // Box-Muller transform: a normal value from two uniform ones.
    spread: (sigma) =>
      Math.exp(sigma * Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next())),
  }
}

/** A day of the history. */
export type Day = {
  /** Starts at 0. */
  readonly index: number
  /** Midnight UTC, milliseconds since the epoch. */
  readonly startMs: number
  /** Demand relative to an ordinary working day, by the day of the week and the time of the year. */
  readonly demand: number
}

export const hourMs = 3_600_000
export const dayMs = 24 * hourMs

/** Demand from Sunday to Saturday: lower on weekends. */
const weekdayWeights = [0.55, 1.05, 1.1, 1.1, 1.05, 0.95, 0.6] as const

/** Demand by the day of the year: low in July and August and after 22 December, highest at the end of November. */
const seasonFactor = (ms: number): number => {
  const date = new Date(ms)
  const month = date.getUTCMonth() + 1
  const day = date.getUTCDate()
  if (month === 12 && day >= 23) return 0.6
  if (month === 11 && day >= 20) return 1.45
  const yearStartMs = Date.UTC(date.getUTCFullYear(), 0, 1)
  return 1 + 0.12 * Math.cos((2 * Math.PI * ((ms - yearStartMs) / dayMs - 320)) / 365)
}

export const dayOf = (index: number, firstMs: number): Day => {
  const startMs = firstMs + index * dayMs
  return { index, startMs, demand: weekdayWeights[new Date(startMs).getUTCDay()]! * seasonFactor(startMs) }
}

/** The distribution of a day's work over the local hours: little at night, most before and after noon. */
const hourWeights = [
  0.2, 0.15, 0.1, 0.1, 0.1, 0.15, 0.3, 0.6, 1, 1.4, 1.6, 1.6, 1.3, 1.4, 1.6, 1.5, 1.3, 1.1, 0.9, 0.8, 0.8,
  0.7, 0.5, 0.3,
] as const
const hourWeightSum = hourWeights.reduce((sum, share) => sum + share, 0)

/** The share of a day's work in an hour UTC, for a person `eastHours` east of UTC. The shares of a day add up to 1. */
export const shareOfHour = (hour: number, eastHours: number): number => {
  const localHour = (((hour + eastHours) % 24) + 24) % 24
  return (hourWeights[localHour] ?? 0) / hourWeightSum
}
