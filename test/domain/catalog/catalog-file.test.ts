import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { parseCatalog } from '../../../src/domain/catalog/catalog-file.ts'
import { problemText } from '../../../src/domain/catalog/catalog-rules.ts'
import { demoJson, demoText } from './samples.ts'

/** The problems of a demo catalogue changed by `edit`. */
// biome-ignore lint/suspicious/noExplicitAny: tests break the file on purpose
const problemsAfter = (edit: (file: any) => void): readonly string[] => {
  const file = demoJson()
  edit(file)
  const parsed = parseCatalog(JSON.stringify(file))
  return parsed.ok ? [] : parsed.problems.map(problemText)
}

const at = (id: string): number => demoJson().products.findIndex((p: { id: string }) => p.id === id)
const premium = at('residential-premium')
const isp = at('isp-static')
const ipv6 = at('ipv6-datacenter')
const mobile = at('mobile-dedicated')
const classic = at('residential-classic')
const parked = at('isp-gateway')
const unlimited = at('residential-unlimited')

test('the demo catalogue is valid and has every family, shape and state, a successor and old ids', () => {
  const parsed = parseCatalog(demoText)
  assert.ok(parsed.ok)
  const { products } = parsed.file
  const all = (pick: (product: (typeof products)[number]) => string) =>
    [...new Set(products.map(pick))].sort()
  assert.deepEqual(
    all((p) => p.family),
    ['ipv4', 'ipv6', 'isp', 'mobile', 'residential'],
  )
  assert.deepEqual(
    all((p) => p.shape),
    ['addresses', 'addresses_mobile', 'gateway_gb', 'gateway_time'],
  )
  assert.deepEqual(
    all((p) => p.state),
    ['active', 'parked', 'retired'],
  )
  assert.ok(products.some((p) => p.successorId !== null && p.aliases.length > 0))
  const countries = products.flatMap((p) =>
    p.shape === 'addresses' ? p.rates.flatMap((r) => r.countries) : [],
  )
  assert.ok(new Set(countries).size >= 12)
})

test('the digest ignores layout and field order, and depends on every value', () => {
  const digestOf = (text: string) => {
    const parsed = parseCatalog(text)
    assert.ok(parsed.ok)
    return parsed.file.digest
  }
  const turned = JSON.stringify({
    products: demoJson().products.map((product: object) =>
      Object.fromEntries(Object.entries(product).reverse()),
    ),
  })
  assert.equal(digestOf(turned), digestOf(demoText))
  const dearer = demoJson()
  dearer.products[premium].tiers[0].unitPriceMicros += 1
  assert.notEqual(digestOf(JSON.stringify(dearer)), digestOf(demoText))
})

test('text that is not JSON is one problem', () => {
  const parsed = parseCatalog('{')
  assert.ok(!parsed.ok)
  assert.match(problemText(parsed.problems[0]!), /expected a JSON file/)
})

const cases: readonly {
  readonly name: string
  // biome-ignore lint/suspicious/noExplicitAny: tests break the file on purpose
  readonly edit: (file: any) => void
  readonly expected: RegExp
}[] = [
  {
    name: 'a price that is text',
    edit: (f) => (f.products[premium].tiers[0].unitPriceMicros = '5.50'),
    expected: /^products\[0\]\.tiers\[0\]\.unitPriceMicros: found "5\.50"; expected /,
  },
  {
    name: 'a price with a fraction',
    edit: (f) => (f.products[premium].tiers[0].unitPriceMicros = 5.5),
    expected: /unitPriceMicros: found 5\.5; expected a whole number/,
  },
  {
    name: 'a price of nothing',
    edit: (f) => (f.products[premium].tiers[0].unitPriceMicros = 0),
    expected: /unitPriceMicros: found 0; expected at least 1$/,
  },
  {
    name: 'an unknown field',
    edit: (f) => (f.products[premium].colour = 'red'),
    expected: /^products\[0\]: .*expected no field colour$/,
  },
  {
    name: 'an unknown shape',
    edit: (f) => (f.products[premium].shape = 'barrel'),
    expected: /expected shape one of gateway_gb, gateway_time, addresses, addresses_mobile/,
  },
  {
    name: 'an unknown family',
    edit: (f) => (f.products[premium].family = 'dsl'),
    expected: /\.family: found "dsl"; expected one of residential, isp, mobile, ipv4, ipv6/,
  },
  {
    name: 'a country that is none',
    edit: (f) => (f.products[isp].rates[0].countries[0] = 'US'),
    expected: /\.countries\[0\]: found "US"; expected an ISO 3166-1 alpha-3 code/,
  },
  {
    name: 'an id with capitals',
    edit: (f) => (f.products[premium].id = 'Premium'),
    expected: /\.id: found "Premium"; expected lower-case letters/,
  },
  {
    name: 'two products of one id',
    edit: (f) => (f.products[isp].id = 'residential-premium'),
    expected: /\.id: found "residential-premium"; expected a name of its own; products\[0\]\.id has this one/,
  },
  {
    name: 'an old id that is another product',
    edit: (f) => f.products[premium].aliases.push('isp-static'),
    expected: /\.aliases\[2\]: found "isp-static"; expected a name of its own/,
  },
  {
    name: 'a first tier that does not start at 1',
    edit: (f) => (f.products[premium].tiers[0].from = 2),
    expected: /tiers\[0\]\.from: found 2; expected 1/,
  },
  {
    name: 'tiers out of order',
    edit: (f) => (f.products[premium].tiers[2].from = 10),
    expected: /tiers\[2\]\.from: found 10; expected more than 10/,
  },
  {
    name: 'a tier that costs more than the one before',
    edit: (f) => (f.products[premium].tiers[1].unitPriceMicros = 6_000_000),
    expected: /tiers\[1\]\.unitPriceMicros: found 6000000; expected at most 5500000/,
  },
  {
    name: 'an order below a cent',
    edit: (f) => (f.products[ipv6].rates[0].tiers = [{ from: 1, unitPriceMicros: 999 }]),
    expected: /unitPriceMicros: found 999; expected at least 1000/,
  },
  {
    name: 'an order above ten million dollars',
    edit: (f) => {
      f.products[premium].maxQuantity = 100_000
      f.products[premium].tiers = [{ from: 1, unitPriceMicros: 200_000_000 }]
    },
    expected: /expected at most 100000000/,
  },
  {
    name: 'a period and country with two prices',
    edit: (f) => f.products[isp].rates.push(f.products[isp].rates[0]),
    expected: /found "USA 7 days"; expected one price for each combination/,
  },
  {
    name: 'a mobile line with two prices',
    edit: (f) => f.products[mobile].rates.push(f.products[mobile].rates[0]),
    expected: /found "att-us dedicated 0 minutes 7 days"; expected one price for each combination/,
  },
  {
    name: 'a rate of a carrier that the product has not',
    edit: (f) => f.products[mobile].rates[0].carriers.push('unknown'),
    expected: /found "unknown"; expected one of the product's carriers: att-us, /,
  },
  {
    name: 'a carrier without a price',
    edit: (f) => f.products[mobile].carriers.push({ id: 'bell-ca', name: 'Bell', country: 'CAN' }),
    expected: /found "bell-ca"; expected a carrier that some rate prices/,
  },
  {
    name: 'fewer than ten IPv6 addresses',
    edit: (f) => (f.products[ipv6].minQuantity = 9),
    expected: /\.minQuantity: found 9; expected at least 10/,
  },
  {
    name: 'a largest order below the smallest',
    edit: (f) => (f.products[premium].minQuantity = 5_001),
    expected: /\.maxQuantity: found 5000; expected at least minQuantity, 5001/,
  },
  {
    name: 'dedicated mobile IPs without carriers',
    edit: (f) => (f.products[isp].family = 'mobile'),
    expected: /expected addresses_mobile for dedicated IPs of family mobile/,
  },
  {
    name: 'a subscription without an interval',
    edit: (f) => (f.products[premium].billing.intervals = []),
    expected: /billing\.intervals: found \[\]; expected month, year or both/,
  },
  {
    name: 'a retired product without a successor',
    edit: (f) => (f.products[classic].successorId = null),
    expected: /\.successorId: found null; expected the product to buy instead/,
  },
  {
    name: 'a successor that does not exist',
    edit: (f) => (f.products[classic].successorId = 'nothing'),
    expected: /found "nothing"; expected the id of a product of this catalogue/,
  },
  {
    name: 'successors in a circle',
    edit: (f) => {
      f.products[premium].state = 'retired'
      f.products[premium].successorId = 'residential-classic'
      f.products[classic].successorId = 'residential-premium'
    },
    expected: /expected a successor that does not lead back to this product/,
  },
  {
    name: 'a successor of a product that is sold',
    edit: (f) => (f.products[premium].successorId = 'residential-basic'),
    expected: /\.successorId: found "residential-basic"; expected null/,
  },
  {
    name: 'a return date of a product that is not parked',
    edit: (f) => (f.products[premium].parkedUntil = f.products[parked].parkedUntil),
    expected: /\.parkedUntil: found "2027-.*"; expected null/,
  },
  {
    name: 'a plan by time that is topped up',
    edit: (f) => (f.products[unlimited].renewal = 'topup'),
    expected: /\.renewal: found "topup"; expected "repurchase"/,
  },
  {
    name: 'a product without a name',
    edit: (f) => (f.products[isp].name = ''),
    expected: /\.name: found ""; expected at least 1 character$/,
  },
  {
    name: 'a NUL character in a text, which would stop the read tables of everybody',
    edit: (f) => (f.products[isp].features = ['fast', 'fi\0ne']),
    expected: /\.features\[1\]: found .*; expected text without NUL characters/,
  },
  {
    name: 'half of a surrogate pair in a text',
    edit: (f) => (f.products[mobile].carriers[0].name = 'AT\ud83dT'),
    expected: /\.carriers\[0\]\.name: found .*halves of surrogate pairs$/,
  },
  {
    name: 'no products',
    edit: (f) => (f.products = []),
    expected: /^products: found \[\]; expected at least 1$/,
  },
]

for (const { name, edit, expected } of cases)
  test(`refused: ${name}`, () => {
    const problems = problemsAfter(edit)
    assert.ok(
      problems.some((problem) => expected.test(problem)),
      problems.join('\n') || 'it was taken',
    )
  })

test('all problems are reported together', () => {
  const problems = problemsAfter((file) => {
    file.products[premium].tiers[0].from = 2
    file.products[classic].successorId = null
  })
  assert.equal(problems.length, 2)
})

test('the example of docs/operations/catalog.md is valid and has every shape', () => {
  const page = readFileSync(new URL('../../../docs/operations/catalog.md', import.meta.url), 'utf8')
  const example = /```json\n([\s\S]*?)```/.exec(page)?.[1] ?? ''
  const parsed = parseCatalog(example)
  assert.ok(parsed.ok, JSON.stringify(parsed))
  const shapes = parsed.file.products.map(({ shape }) => shape)
  assert.deepEqual(shapes, ['gateway_gb', 'gateway_time', 'addresses', 'addresses_mobile'])
})
