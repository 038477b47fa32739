import assert from 'node:assert/strict'
import { test } from 'node:test'
import { problemText } from '../../src/market/catalog/problem.ts'
import { canonicalIp } from '../../src/market/stock/ip.ts'
import { parseStocking } from '../../src/market/stock/stocking-input.ts'
import { demoProduct } from '../catalog/samples.ts'
import fc from '../support/fast-check.ts'

const parse = (productId: string, text: string, over: Partial<Parameters<typeof parseStocking>[1]> = {}) =>
  parseStocking(demoProduct(productId), { country: 'USA', text, defaults: {}, ...over })

test('a list has one address a line, or several with commas or spaces between, and comments', () => {
  const parsed = parse('isp-static', '# rack 7\n198.18.0.1\n198.18.0.2, 198.18.0.3 # spare\n\n')
  assert.ok(parsed.ok)
  assert.deepEqual(
    parsed.stocking.addresses.map(({ ip }) => ip),
    ['198.18.0.1', '198.18.0.2', '198.18.0.3'],
  )
})

test('a JSON list says more of each address, and options stand in for what it leaves out', () => {
  const parsed = parse('isp-static', '[{"ip": "198.18.0.1", "city": "Dallas"}, {"ip": "198.18.0.2"}]', {
    defaults: { city: 'Chicago', asn: 64_500, asnOrg: 'Example' },
  })
  assert.ok(parsed.ok)
  assert.deepEqual(
    parsed.stocking.addresses.map(({ city, asn }) => [city, asn]),
    [
      ['Dallas', 64_500],
      ['Chicago', 64_500],
    ],
  )
})

test('mobile addresses name a carrier and service of their country', () => {
  const parsed = parse('mobile-dedicated', '198.19.0.1', {
    defaults: { carrierId: 'att-us', service: 'shared' },
  })
  assert.ok(parsed.ok)
  assert.equal(parsed.stocking.addresses[0]?.carrierId, 'att-us')
})

const refused: readonly [string, ReturnType<typeof parseStocking>, RegExp][] = [
  ['a gateway product', parse('residential-premium', '198.18.0.1'), /a product of dedicated IPs/],
  ['a country without prices', parse('isp-static', '198.18.0.1', { country: 'CHN' }), /has prices for: AUS/],
  ['nothing', parse('isp-static', ' \n# none'), /at least one address/],
  ['broken JSON', parse('isp-static', '[{]'), /one address a line, or a JSON array/],
  ['an unknown field', parse('isp-static', '[{"ip": "198.18.0.1", "port": 80}]'), /^\[0\]/],
  [
    'a city that Postgres cannot hold',
    parse('isp-static', '[{"ip": "198.18.0.1", "city": "Dal\\u0000las"}]'),
    /^\[0\]\.city: found .*; expected text without NUL characters/,
  ],
  [
    'half of a surrogate pair',
    parse('isp-static', '[{"ip": "198.18.0.1", "asnOrg": "\\ud83d"}]'),
    /^\[0\]\.asnOrg: found .*halves of surrogate pairs$/,
  ],
  [
    'a name',
    parse('isp-static', '198.18.0.1\nexample.com'),
    /^line 2: found "example.com"; expected an IPv4/,
  ],
  ['loopback', parse('isp-static', '127.0.0.1'), /of one host/],
  ['multicast', parse('ipv6-datacenter', 'ff02::1'), /of one host/],
  ['IPv6 on an IPv4 product', parse('ipv4-datacenter', '2001:db8::1'), /expected an IPv4 address/],
  ['IPv4 on an IPv6 product', parse('ipv6-datacenter', '198.18.0.1'), /expected an IPv6 address/],
  ['mobile without a carrier', parse('mobile-dedicated', '198.19.0.1'), /att-us dedicated, /],
  [
    'a carrier on a product without carriers',
    parse('isp-static', '198.18.0.1', { defaults: { carrierId: 'att-us' } }),
    /no carrier and no service/,
  ],
]
for (const [name, parsed, expected] of refused)
  test(`refused: ${name}`, () => {
    assert.ok(!parsed.ok)
    assert.match(parsed.problems.map(problemText).join('\n'), expected)
  })

test('one bad address refuses the whole list', () => {
  const parsed = parse('isp-static', '198.18.0.1\nx\ny')
  assert.ok(!parsed.ok)
  assert.equal(parsed.problems.length, 2)
})

test('however an IPv6 address is written, it has one text', () => {
  const group = fc.integer({ min: 0, max: 0xffff })
  fc.assert(
    fc.property(fc.array(group, { minLength: 7, maxLength: 7 }), (rest) => {
      const groups = [0x2001, ...rest]
      const long = groups.map((value) => value.toString(16).padStart(4, '0').toUpperCase()).join(':')
      const short = groups.map((value) => value.toString(16)).join(':')
      const canonical = canonicalIp(short)
      assert.ok(canonical !== null)
      assert.equal(canonicalIp(long), canonical)
      assert.equal(canonicalIp(canonical), canonical)
    }),
  )
})
