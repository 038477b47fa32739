import { hash } from 'node:crypto'

/** Chance that is the same for the same seed: the history is told again by its seed, whatever runs at once. */
export type Random = {
  /** From 0 on, below 1. */
  next(): number
  /** A whole number, both ends included. */
  whole(min: number, max: number): number
  /** Whether something of this probability happens. */
  chance(probability: number): boolean
  pick<Item>(items: readonly Item[]): Item
  /** One of the keys, each as often as its weight says. */
  weighted<Key extends string>(weights: Readonly<Record<Key, number>>): Key
  /** Around 1, log-normal: most of many are near it, a few far above. */
  spread(sigma: number): number
}

/** @param seed any text */
export const createRandom = (seed: string): Random => {
  let state = Number.parseInt(hash('sha256', seed, 'hex').slice(0, 8), 16)
  /** Mulberry32: a step of a counter, stirred. */
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
      let left = next() * entries.reduce((sum, [, weight]) => sum + weight, 0)
      const found = entries.find(([, weight]) => {
        left -= weight
        return left < 0
      })
      return (found ?? entries[0])?.[0] as Key
    },
    // Box and Muller's way from two even numbers to a normal one.
    spread: (sigma) =>
      Math.exp(sigma * Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next())),
  }
}
