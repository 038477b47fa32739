import fc from '../support/fast-check.ts'

/** Mostly one of the first, sometimes one of the others: most steps are to succeed. */
const mostly = <const Usual, const Odd>(
  usual: readonly Usual[],
  odd: readonly Odd[],
): fc.Arbitrary<Usual | Odd> =>
  fc.oneof(
    { weight: 9, arbitrary: fc.constantFrom(...usual) },
    { weight: 1, arbitrary: fc.constantFrom(...odd) },
  )

// Inputs are numbers that select among the existing items when the step runs.
const who = mostly(['buyer', 'buyer', 'reseller', 'capped'], ['buyer', 'reseller', 'scraper'])
const nth = fc.nat({ max: 1000 })
/** The names that a reseller's customers have; mostly it acts for itself or one of the first. */
const customer = fc.oneof(
  { weight: 5, arbitrary: fc.constant(null) },
  { weight: 5, arbitrary: fc.constantFrom('ann', 'bob') },
)
/** Mostly one of the newest, so that things happen to the same order, plan or key again. */
const newest = fc.oneof({ weight: 4, arbitrary: fc.nat({ max: 2 }) }, fc.nat({ max: 50 }))
const guard = mostly(['none', 'none', 'right'], ['wrong'])

const buy = fc.record({
  kind: fc.constant('buy' as const),
  who,
  customer,
  /** A customer on a key that is no reseller's. */
  forbidden: mostly([false, false, false], [true]),
  product: mostly(
    [
      'residential-premium',
      'resi-premium',
      'residential-unlimited-day',
      'isp-static',
      'isp-static',
      'ipv4-datacenter',
      'ipv6-datacenter',
      'mobile-dedicated',
      'mobile-dedicated',
    ],
    ['isp-gateway', 'residential-classic', 'nothing'],
  ),
  quantity: mostly([1, 2, 3, 5, 11, 20], [0, 100, 6000, 1.5]),
  /** Which of the lines of the catalogue is named, and which mobile fields are left open. */
  line: nth,
  where: fc.constantFrom('USA', 'USA', 'POL', 'any'),
  open: fc.constantFrom('none', 'none', 'carrier', 'service', 'rotation', 'all'),
  wrong: mostly(['no'], ['country', 'period', 'field', 'card']),
  guard,
  keyed: mostly([true], [false]),
})
const topUp = fc.record({
  kind: fc.constant('topUp' as const),
  who,
  plan: newest,
  own: mostly([true], [false]),
  quantity: mostly([1, 2, 10], [0, 50, 6000]),
  guard,
})
const extend = fc.record({
  kind: fc.constant('extend' as const),
  who,
  order: newest,
  own: mostly([true], [false]),
  how: fc.constantFrom('order', 'first', 'all', 'mixed'),
  period: mostly([7, 30, 90], [31]),
  guard,
})
const retry = fc.record({
  kind: fc.constant('retry' as const),
  request: newest,
  change: fc.constantFrom('none', 'none', 'quantity', 'guard', 'alias', 'customer'),
})
const refund = fc.record({
  kind: fc.constant('refund' as const),
  order: newest,
  how: fc.oneof(
    fc.constant('whole' as const),
    /** A share of the rest, in percent: also above 100. */
    fc.record({ percent: fc.constantFrom(1, 30, 50, 100, 101, 120) }),
    fc.record({ proxies: fc.integer({ min: 1, max: 12 }) }),
  ),
})
const credit = fc.record({
  kind: fc.constant('credit' as const),
  who,
  cents: fc.integer({ min: 1, max: 10_000 }),
  reference: fc.nat({ max: 9 }),
})
const adjust = fc.record({
  kind: fc.constant('adjust' as const),
  who,
  cents: fc.integer({ min: -40_000, max: 20_000 }).filter((cents) => cents !== 0),
  reference: fc.nat({ max: 9 }),
  reason: mostly(['correction', 'goodwill'], ['chargeback']),
})
const meter = fc.record({
  kind: fc.constant('meter' as const),
  plan: newest,
  bytes: fc.integer({ min: 1, max: 4_000_000_000 }),
})
const customerCredit = fc.record({
  kind: fc.constant('customerCredit' as const),
  customer: fc.constantFrom('ann', 'bob'),
  cents: fc.integer({ min: 1, max: 20_000 }),
  reference: fc.nat({ max: 9 }),
})
/** Opened and paid: as much as requested, less or more, in percent. */
const deposit = fc.record({
  kind: fc.constant('deposit' as const),
  who,
  customer,
  forbidden: mostly([false], [true]),
  method: fc.constantFrom('card' as const, 'crypto' as const),
  cents: fc.integer({ min: 1, max: 9_000 }),
  percent: mostly([100, 100, 130], [40]),
  /** Paid again, where the payer can: all of it, or a part. */
  again: fc.constantFrom(0, 0, 60, 100),
})
const account = fc.record({
  kind: mostly(['unblock', 'issue'], ['block', 'revoke']),
  who,
})

const single = fc.oneof(
  { weight: 8, arbitrary: buy },
  { weight: 2, arbitrary: topUp },
  { weight: 3, arbitrary: extend },
  { weight: 3, arbitrary: retry },
  { weight: 4, arbitrary: refund },
  { weight: 2, arbitrary: credit },
  { weight: 1, arbitrary: adjust },
  { weight: 1, arbitrary: meter },
  { weight: 2, arbitrary: account },
  { weight: 3, arbitrary: customerCredit },
)
const request = fc.oneof({ weight: 6, arbitrary: buy }, topUp, extend, retry, refund, credit, customerCredit)

/** At once; with `oneKey` the first is sent as often, under one key. */
const together = fc.record({
  kind: fc.constant('together' as const),
  steps: fc.array(request, { minLength: 2, maxLength: 6 }),
  oneKey: fc.constantFrom(false, false, true),
})
const minuteMs = 60_000
/** Far from every boundary (15 minutes of rest, 24 hours of cap): the time that the test itself takes decides nothing. */
const wait = fc.record({
  kind: fc.constant('wait' as const),
  ms: fc.constantFrom(17 * minuteMs, 25 * 60 * minuteMs, 8 * 24 * 60 * minuteMs, 31 * 24 * 60 * minuteMs),
})
/** The service is down for so long: a moment, or weeks. */
const restart = fc.record({
  kind: fc.constant('restart' as const),
  ms: fc.constantFrom(0, 0, 9 * 24 * 60 * minuteMs, 40 * 24 * 60 * minuteMs),
})

export const step = fc.oneof(
  { weight: 20, arbitrary: single },
  { weight: 7, arbitrary: together },
  { weight: 3, arbitrary: deposit },
  { weight: 2, arbitrary: wait },
  { weight: 1, arbitrary: restart },
)

type Of<Arbitrary> = Arbitrary extends fc.Arbitrary<infer Value> ? Value : never
export type Single = Of<typeof single>
export type Step = Of<typeof step>
