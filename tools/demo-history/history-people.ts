import type { PlanId } from '../../src/kernel/ids.ts'
import { type Day, dayMs, type Random } from './rhythm.ts'
import type { Client, OrderAnswer, Shop } from './shop.ts'
import type { Line, Traffic } from './traffic.ts'

/** An action in an hour (UTC) of a day. */
export type Act = { readonly hour: number; readonly run: () => Promise<void> }

/** Returns the actions of a person on a day, from the day of the person's arrival on. */
export type Habit = (day: Day) => readonly Act[]

export type World = {
  readonly shop: Shop
  readonly traffic: Pick<Traffic, 'add'>
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** Reports an order. The operator may refund it later. */
  ordered(order: OrderAnswer, random: Random): void
}

/** A person with an account. */
export type Person = {
  readonly client: Client
  readonly random: Random
  /** The size of the business; 1 is usual. */
  readonly scale: number
  /** The time zone, hours east of UTC. */
  readonly eastHours: number
  /** The index of the day of arrival. */
  readonly since: number
}

export const habitKinds = [
  'traffic',
  'addresses',
  'subscription',
  'scraping',
  'unlimited',
  'reseller',
] as const
export type HabitKind = (typeof habitKinds)[number]

const gb = 1_000_000_000
const ordersPath = '/api/v1/orders'
const packs = [1, 2, 5, 10, 25, 50, 100, 250, 500] as const

const hostsOf = (random: Random): readonly string[] => {
  const targets = [
    'shop',
    'search',
    'tickets',
    'travel',
    'jobs',
    'prices',
    'maps',
    'news',
    'reviews',
    'images',
  ]
  return Array.from(
    { length: random.whole(4, 9) },
    () => `www.${random.pick(targets)}${random.whole(1, 9)}.example`,
  )
}

/** A random working hour of a person, in UTC. */
const workingHour = ({ random, eastHours }: Pick<Person, 'random' | 'eastHours'>): number =>
  (((random.whole(8, 18) - eastHours) % 24) + 24) % 24

/** The growth of a business since its first day, as a factor. */
const growth = (day: Day, since: number): number => 1 + (0.7 * (day.index - since)) / 365

/** Buys a pack of traffic when the last one runs out, and uses it day by day. */
const trafficHabit = (
  { client, random, scale, eastHours, since }: Person,
  { shop, traffic, ordered }: World,
  customer?: string,
): Habit => {
  const productId = random.chance(0.65) ? 'residential-premium' : 'residential-basic'
  const usualBytes = 0.7 * gb * scale
  const dailyBytes = (day: Day): number => usualBytes * day.demand * growth(day, since)
  // Some people wait until no traffic is left.
  const reorderDays = random.chance(0.3) ? 0.2 : 2.5
  const coveredDays = random.whole(8, 20)
  const lineTerms = {
    accountId: client.accountId,
    dailyBytes,
    eastHours,
    hosts: hostsOf(random),
    failing: 0.01 + 0.05 * random.next(),
    random,
  }
  let line: Line | null = null
  return (day) => {
    const daily = dailyBytes(day)
    if (line !== null && line.leftBytes > reorderDays * daily) return []
    const quantity = packs.find((pack) => pack * gb >= coveredDays * daily) ?? packs.at(-1)!
    const run = async (): Promise<void> => {
      const order = await shop.buy(
        client,
        { path: ordersPath, body: { product_id: productId, quantity }, ...(customer && { customer }) },
        random,
      )
      if (order?.planId == null) return
      line = traffic.add({ ...lineTerms, planId: order.planId as PlanId }, quantity * gb)
      ordered(order, random)
    }
    return [{ hour: workingHour({ random, eastHours }), run }]
  }
}

const pools = [
  {
    product: 'isp-static',
    countries: ['USA', 'CAN', 'GBR', 'DEU', 'FRA', 'NLD', 'ITA', 'ESP', 'POL', 'JPN'],
    most: 6,
  },
  { product: 'ipv4-datacenter', countries: ['USA', 'CAN', 'GBR', 'DEU', 'FRA', 'NLD'], most: 10 },
  { product: 'ipv6-datacenter', countries: ['USA', 'GBR', 'DEU', 'FRA', 'NLD'], most: 20 },
] as const
const rentedDays = 30

type Rental = { readonly orderId: string; endsOn: number }

/** Rents addresses, extends most of them every month, and sometimes rents more. */
const addressHabit = (
  { client, random, scale, eastHours }: Person,
  { shop, ordered }: World,
  customer?: string,
): Habit => {
  const { product, countries, most: maxCount } = random.pick(pools)
  const country = random.pick(countries)
  const customerField = customer === undefined ? {} : { customer }
  const minCount = product === 'ipv6-datacenter' ? 10 : 1
  let rentals: Rental[] = []
  const rent = async (day: Day): Promise<void> => {
    const quantity = Math.max(minCount, Math.min(maxCount, Math.round(random.whole(1, maxCount) * scale)))
    const body = {
      product_id: product,
      quantity,
      fulfillment_meta: { country, period_days: rentedDays },
    }
    const order = await shop.buy(client, { path: ordersPath, body, ...customerField }, random)
    if (order === null) return
    rentals.push({ orderId: order.orderId, endsOn: day.index + rentedDays })
    ordered(order, random)
  }
  const extendRental = async (rental: Rental): Promise<void> => {
    const body = { order_id: rental.orderId, period_days: rentedDays }
    const order = await shop.buy(client, { path: '/api/v1/proxies/extend', body, ...customerField }, random)
    if (order === null) rentals = rentals.filter((each) => each !== rental)
    else rental.endsOn += rentedDays
  }
  return (day) => {
    const hour = workingHour({ random, eastHours })
    const endingRentals = rentals.filter(({ endsOn }) => endsOn - 1 === day.index)
    const extended = endingRentals.filter(() => random.chance(0.88))
    rentals = rentals.filter((rental) => extended.includes(rental) || rental.endsOn - 1 > day.index)
    const rentsMore = rentals.length === 0 || (rentals.length < 3 && random.chance(0.012 * day.demand))
    return [
      ...extended.map((rental) => ({ hour, run: () => extendRental(rental) })),
      ...(rentsMore ? [{ hour, run: () => rent(day) }] : []),
    ]
  }
}

/** Has a subscription, and tops up the wallet for it, mostly in time. */
const subscriptionHabit = (person: Person, { shop }: World): Habit => {
  const { client, random, scale } = person
  const body = random.pick([
    { product_id: 'residential-premium', quantity: Math.max(1, Math.round(8 * scale)), interval: 'month' },
    {
      product_id: 'isp-static',
      quantity: Math.max(1, Math.min(8, Math.round(4 * scale))),
      interval: 'month',
      fulfillment_meta: { country: random.pick(['USA', 'DEU', 'GBR']), period_days: rentedDays },
    },
  ])
  const neededCents = body.quantity * 600
  let subscriptionId: string | null = null
  let lastStart = Number.NEGATIVE_INFINITY
  const start = async (day: Day): Promise<void> => {
    lastStart = day.index
    subscriptionId = (await shop.subscribe(client, body, random))?.subscriptionId ?? null
  }
  const topUp = async (): Promise<void> => {
    if ((await shop.balanceCents(client)) < neededCents)
      await shop.deposit(client, 2 * Math.max(neededCents, 2_500), random)
  }
  const stop = async (): Promise<void> => {
    if (subscriptionId !== null) await shop.cancel(client, subscriptionId)
    subscriptionId = null
  }
  return (day) => {
    const hour = workingHour(person)
    if (subscriptionId === null) {
      const startsNow =
        lastStart === Number.NEGATIVE_INFINITY || (day.index - lastStart > 20 && random.chance(0.03))
      return startsNow ? [{ hour, run: () => start(day) }] : []
    }
    if (random.chance(0.002)) return [{ hour, run: stop }]
    return random.chance(0.2) ? [{ hour, run: topUp }] : []
  }
}

const scrapers = [
  ['tiktok/profile', (name: string) => ({ handle: name })],
  ['instagram/profile', (name: string) => ({ handle: name })],
  ['reddit/subreddit', (name: string) => ({ subreddit: name })],
] as const

/** Calls scrapers in working hours. */
const scrapingHabit = (person: Person, { shop }: World): Habit => {
  const { client, random, scale, since } = person
  const favourite = random.whole(0, scrapers.length - 1)
  const dailyCalls = 3 * scale
  return (day) => {
    const calls = Math.min(60, Math.round(dailyCalls * day.demand * growth(day, since) * random.spread(0.4)))
    const call = async (): Promise<void> => {
      const [scraper, bodyOf] =
        scrapers[random.chance(0.6) ? favourite : random.whole(0, scrapers.length - 1)]!
      const name = `${random.chance(0.06) ? 'missing-' : 'creator'}${random.whole(1, 400)}`
      await shop.scrape(client, scraper, bodyOf(name))
    }
    const topUp = async (): Promise<void> => {
      if ((await shop.balanceCents(client)) < calls) await shop.deposit(client, 2_500, random)
    }
    return [
      ...(random.chance(0.25) ? [{ hour: 0, run: topUp }] : []),
      ...Array.from({ length: calls }, () => ({ hour: workingHour(person), run: call })),
    ]
  }
}

/** Buys an unlimited plan for a month, and again some time after its end. */
const unlimitedHabit = (
  { client, random, scale, eastHours }: Person,
  { shop, traffic, now }: World,
): Habit => {
  const quantity = Math.max(1, Math.min(4, Math.round(scale)))
  const lineTerms = {
    accountId: client.accountId,
    dailyBytes: (day: Day) => 60 * gb * quantity * day.demand,
    eastHours,
    hosts: hostsOf(random),
    failing: 0.02,
    random,
  }
  let endsOnDay = Number.NEGATIVE_INFINITY
  return (day) => {
    if (day.index < endsOnDay) return []
    // The next plan is not always bought at once.
    if (endsOnDay > 0 && !random.chance(0.3)) return []
    const run = async (): Promise<void> => {
      const body = { product_id: 'residential-unlimited', quantity }
      const order = await shop.buy(client, { path: ordersPath, body }, random)
      if (order?.planId == null) return
      endsOnDay = day.index + 30
      traffic.add(
        { ...lineTerms, planId: order.planId as PlanId },
        Number.POSITIVE_INFINITY,
        now() + 30 * dayMs,
      )
    }
    return [{ hour: workingHour({ random, eastHours }), run }]
  }
}

/** Sells to customers of the reseller. The customers arrive one after another. */
const resellerHabit = (person: Person, world: World): Habit => {
  const { random } = person
  const customers: { readonly ref: string; readonly habit: Habit }[] = []
  const maxCount = Math.round(10 + 14 * person.scale)
  const addCustomer = (day: Day): void => {
    const ref = `client-${String(customers.length + 1).padStart(3, '0')}`
    const customerPerson = { ...person, scale: 0.35 * random.spread(0.7), since: day.index }
    const habit = random.chance(0.7)
      ? trafficHabit(customerPerson, world, ref)
      : addressHabit(customerPerson, world, ref)
    customers.push({ ref, habit })
  }
  return (day) => {
    if (customers.length < 2 || (customers.length < maxCount && random.chance(0.06))) addCustomer(day)
    return customers.flatMap(({ habit }) => habit(day))
  }
}

const habits: Readonly<Record<HabitKind, (person: Person, world: World) => Habit>> = {
  traffic: (person, world) => trafficHabit(person, world),
  addresses: (person, world) => addressHabit(person, world),
  subscription: subscriptionHabit,
  scraping: scrapingHabit,
  unlimited: unlimitedHabit,
  reseller: resellerHabit,
}

export const habitOf = (kind: HabitKind, person: Person, world: World): Habit => habits[kind](person, world)
