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

const first = [
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
const second = [
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
  const round = Math.floor(n / (first.length * second.length))
  const name = `${first[n % first.length]}-${second[(n * 7 + Math.floor(n / first.length)) % second.length]}`
  return `ops@${name}${round === 0 ? '' : round + 1}-${n + 1}.example`
}

const usualWork: Readonly<Record<HabitKind, number>> = {
  traffic: 42,
  addresses: 22,
  subscription: 14,
  scraping: 12,
  unlimited: 4,
  reseller: 6,
}

const rails = { card: 62, crypto: 30, alipay: 8 } as const

const eastOf = (random: Random): number =>
  random.pick([-8, -6, -5, -5, 0, 1, 1, 2, 3, 5.5, 8, 9].map(Math.round))

/** The accounts besides those of the demo, in the order of arrival. Arrivals become more frequent over time. */
export const newcomers = (asked: {
  readonly seed: string
  readonly customers: number
  readonly days: number
}): readonly Newcomer[] =>
  Array.from({ length: asked.customers }, (_, n) => {
    const random = createRandom(`${asked.seed}/person/${n}`)
    const since = Math.floor(asked.days * ((n + random.next()) / asked.customers) ** 0.7)
    const kind = random.weighted(usualWork)
    const other = random.chance(0.25)
      ? random.pick(habitKinds.filter((each) => each !== 'reseller' && each !== kind))
      : null
    return {
      random,
      email: emailOf(n),
      reseller: kind === 'reseller',
      rail: random.weighted(rails),
      kinds: other === null ? [kind] : [kind, other],
      scale: Math.min(6, random.spread(0.7)),
      eastHours: eastOf(random),
      since,
      until: random.chance(0.35) ? since + random.whole(20, 260) : Number.POSITIVE_INFINITY,
    }
  })
