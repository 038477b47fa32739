import { type HabitKind, habitKinds, type Person } from './history-people.ts'
import { createRandom, type Random } from './rhythm.ts'
import type { Client } from './shop.ts'

/** A new account: its person, day of arrival, and habits. */
export type Newcomer = Omit<Person, 'client'> & {
  readonly email: string
  readonly reseller: boolean
  readonly rail: Client['rail']
  readonly kinds: readonly HabitKind[]
  /** The day from which the person is inactive; infinity for most. */
  readonly until: number
}

const firstWords = [
  'amber',
  'birch',
  'cedar',
  'delta',
  'ember',
  'fjord',
  'granite',
  'harbor',
  'indigo',
  'juniper',
  'krill',
  'lagoon',
  'maple',
  'nimbus',
  'onyx',
  'prairie',
  'quartz',
  'river',
  'summit',
  'tundra',
  'umber',
  'vista',
  'willow',
  'zephyr',
] as const
const secondWords = [
  'data',
  'labs',
  'retail',
  'media',
  'travel',
  'search',
  'insights',
  'commerce',
  'analytics',
  'works',
] as const

/** An e-mail address with a different company for each number. */
const emailOf = (n: number): string => {
  const round = Math.floor(n / (firstWords.length * secondWords.length))
  const name = `${firstWords[n % firstWords.length]}-${secondWords[(n * 7 + Math.floor(n / firstWords.length)) % secondWords.length]}`
  return `ops@${name}${round === 0 ? '' : round + 1}-${n + 1}.example`
}

const habitWeights: Readonly<Record<HabitKind, number>> = {
  traffic: 42,
  addresses: 22,
  subscription: 14,
  scraping: 12,
  unlimited: 4,
  reseller: 6,
}

const rails = { card: 62, crypto: 30, alipay: 8 } as const

const timeZoneOf = (random: Random): number =>
  random.pick([-8, -6, -5, -5, 0, 1, 1, 2, 3, 5.5, 8, 9].map(Math.round))

/** The accounts besides those of the demo, in the order of arrival. Arrivals become more frequent over time. */
export const newcomers = (request: {
  readonly seed: string
  readonly customers: number
  readonly days: number
}): readonly Newcomer[] =>
  Array.from({ length: request.customers }, (_, n) => {
    const random = createRandom(`${request.seed}/person/${n}`)
    const since = Math.floor(request.days * ((n + random.next()) / request.customers) ** 0.7)
    const kind = random.weighted(habitWeights)
    const secondKind = random.chance(0.25)
      ? random.pick(habitKinds.filter((candidate) => candidate !== 'reseller' && candidate !== kind))
      : null
    return {
      random,
      email: emailOf(n),
      reseller: kind === 'reseller',
      rail: random.weighted(rails),
      kinds: secondKind === null ? [kind] : [kind, secondKind],
      scale: Math.min(6, random.spread(0.7)),
      eastHours: timeZoneOf(random),
      since,
      until: random.chance(0.35) ? since + random.whole(20, 260) : Number.POSITIVE_INFINITY,
    }
  })
