import assert from 'node:assert/strict'
import { test } from 'node:test'
import { problemText } from '../../../src/domain/catalog/catalog-rules.ts'
import { parseStocking, type StockingInput } from '../../../src/features/stock/parse-stock.ts'
import { canonicalIp } from '../../../src/kernel/ip-address.ts'
import { demoCatalog } from '../../domain/catalog/samples.ts'
import fc from '../../support/fast-check.ts'

const parse = (product: string | null, text: string, over: Partial<StockingInput> = {}) =>
  parseStocking((id) => demoCatalog.resolve(id), { product, country: 'USA', text, defaults: {}, ...over })

test('a list has one address a line, or several separated by commas or spaces, and comments', () => {
  const parsed = parse('isp-static', '# rack 7\n198.18.0.1\n198.18.0.2, 198.18.0.3 # spare\n\n')
  assert.ok(parsed.ok)
  assert.deepEqual(
    parsed.stocks[0]?.addresses.map(({ ip }) => ip),
    ['198.18.0.1', '198.18.0.2', '198.18.0.3'],
  )
})

test('a JSON list has details of each address, and options fill in what it omits', () => {
  const parsed = parse('isp-static', '[{"ip": "198.18.0.1", "city": "Dallas"}, {"ip": "198.18.0.2"}]', {
    defaults: { city: 'Chicago', asn: 64_500, asnOrg: 'Example' },
  })
  assert.ok(parsed.ok)
  assert.deepEqual(
    parsed.stocks[0]?.addresses.map(({ city, asn }) => [city, asn]),
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
  assert.equal(parsed.stocks[0]?.addresses[0]?.carrierId, 'att-us')
})

const supplier = {
  protocol: 'socks5',
  host: 'gw.acme.example',
  port: 1080,
  username: 'u',
  password: 's3cret#1',
}

test('JSON lines contain everything themselves: product, country and endpoint', () => {
  const lines = [
    { product: 'isp-static', country: 'usa', ip: '198.18.0.1', city: 'Dallas', endpoint: supplier },
    {
      product: 'ipv6-datacenter',
      country: 'DEU',
      ip: '2001:DB8::1',
      endpoint: { ...supplier, username: null },
    },
    { ip: '198.18.0.2' },
  ]
  const text = `# of Acme\n${lines.map((line) => JSON.stringify(line)).join('\n')}\n`
  const parsed = parse('isp-static', text)
  assert.ok(parsed.ok, JSON.stringify(parsed))
  const { protocol, host, port } = supplier
  const [usa, germany] = parsed.stocks
  assert.deepEqual(
    usa?.addresses.map(({ ip, endpoint }) => [ip, endpoint]),
    [
      ['198.18.0.1', { protocol, host, port, udp: false, login: { username: 'u', password: 's3cret#1' } }],
      ['198.18.0.2', undefined],
    ],
  )
  assert.deepEqual([germany?.productId, germany?.country], ['ipv6-datacenter', 'DEU'])
  assert.deepEqual(
    germany?.addresses.map(({ ip, endpoint }) => [ip, endpoint?.login]),
    [['2001:db8::1', null]],
  )
})

const line = (over: object, endpoint: object = {}) =>
  parse(
    null,
    JSON.stringify({
      product: 'isp-static',
      ip: '198.18.0.1',
      ...over,
      endpoint: { ...supplier, ...endpoint },
    }),
  )

const refused: readonly [string, ReturnType<typeof parseStocking>, RegExp][] = [
  ['a gateway product', parse('residential-premium', '198.18.0.1'), /a product of dedicated IPs/],
  ['a country without prices', parse('isp-static', '198.18.0.1', { country: 'CHN' }), /has prices for: AUS/],
  ['nothing', parse('isp-static', ' \n# none'), /at least one address/],
  ['broken JSON', parse('isp-static', '[{]'), /one address a line, or a JSON array/],
  [
    'a line of broken JSON',
    parse('isp-static', '{"ip": "198.18.0.1"}\n{"password": "s3c'),
    /^line 2: found "no JSON"/,
  ],
  ['no product', parse(null, '198.18.0.1'), /^product: .*a product of dedicated IPs/],
  ['a product that is none', line({ product: 'none' }), /^line 1\.product: found "none"/],
  ['a country of the line without prices', line({ country: 'CHN' }), /^line 1\.country: found "CHN"/],
  ['a protocol', line({}, { protocol: 'socks4' }), /^line 1\.endpoint\.protocol: .*http, https, socks5/],
  ['a port', line({}, { port: 0 }), /^line 1\.endpoint\.port: found 0/],
  ['a host', line({}, { host: 'gw acme' }), /^line 1\.endpoint\.host/],
  ['UDP through HTTP', line({}, { protocol: 'http', udp: true }), /^line 1\.endpoint\.udp/],
  ['a field of an endpoint', line({}, { user: 'u' }), /^line 1\.endpoint: found "user"/],
  [
    'one address by two endpoints',
    parse(
      'isp-static',
      [1, 2].map((port) => JSON.stringify({ ip: '198.18.0.1', endpoint: { ...supplier, port } })).join('\n'),
    ),
    /^line 2: found "198\.18\.0\.1"; expected each address once; line 1 has it/,
  ],
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

test('a refusal never shows credentials', () => {
  for (const parsed of [line({}, { password: 'ö-s3cret' }), line({}, { username: 7 })]) {
    assert.ok(!parsed.ok)
    assert.doesNotMatch(parsed.problems.map(problemText).join(), /s3cret|: 7/)
  }
})

test('one bad address refuses the whole list', () => {
  const parsed = parse('isp-static', '198.18.0.1\nx\ny')
  assert.ok(!parsed.ok)
  assert.equal(parsed.problems.length, 2)
})

test('every spelling of an IPv6 address has the same text', () => {
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
