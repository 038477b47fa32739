import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  anyTargeting,
  baseOf,
  type Line,
  parseUsername,
  systems,
  type Targeting,
  targetingProblem,
  writeUsername,
} from '../../../src/domain/exits/line.ts'
import fc from '../../support/fast-check.ts'

const base = 'u7k2m9x4'
const lineOf = (username: string): Line => {
  const parsed = parseUsername(username)
  if (!parsed.ok) return assert.fail(`${username}: ${parsed.problem.token}: ${parsed.problem.detail}`)
  return parsed.line
}

const slug = fc.stringMatching(/^[a-z0-9]{1,8}(_[a-z0-9]{1,6}){0,2}$/)
const country = fc.constantFrom('us', 'de', 'jp', 'br', 'gb')
const asn = fc.integer({ min: 1, max: 4_294_967_295 })
const listOf = <Entry>(entry: fc.Arbitrary<Entry>) => fc.uniqueArray(entry, { maxLength: 3 })
const targetings: fc.Arbitrary<Targeting> = fc
  .record({
    country: fc.option(country),
    state: fc.option(slug),
    city: fc.option(slug),
    isp: fc.option(slug),
    asn: fc.option(asn),
    os: fc.option(fc.constantFrom(...systems)),
    strict: fc.boolean(),
    udp: fc.boolean(),
    not: fc.record({
      countries: listOf(country),
      states: listOf(slug),
      cities: listOf(slug),
      asns: listOf(asn),
    }),
  })
  .filter((targeting) => targetingProblem(targeting) === null)
const lines: fc.Arbitrary<Line> = fc
  .record({
    base: fc.stringMatching(/^[a-z0-9]{6,16}$/),
    targeting: targetings,
    session: fc.option(
      fc.record({
        id: fc.stringMatching(/^[A-Za-z0-9_]{1,32}$/),
        lifetimeMinutes: fc.integer({ min: 1, max: 1_440 }),
      }),
    ),
    limitMegabytes: fc.option(fc.integer({ min: 1, max: 1_000_000 })),
    set: fc.option(fc.stringMatching(/^[a-z0-9]{8}$/), { freq: 4 }),
  })
  // Its records have no prototype, which a deep comparison minds.
  .map((line) => structuredClone(line))
  .map((line) => ({
    ...line,
    targeting: line.set === null ? line.targeting : anyTargeting,
    limitMegabytes: line.session === null ? null : line.limitMegabytes,
  }))

describe('the username of a line', () => {
  test('reads as the line that was written, with keys in any order', () => {
    fc.assert(
      fc.property(lines, fc.infiniteStream(fc.nat(1_000)), (line, numbers) => {
        const written = writeUsername(line)
        if (written.length > 255) return
        assert.deepEqual(lineOf(written), line)
        const [first = '', ...rest] = written.split('-')
        const pairs = Array.from({ length: rest.length / 2 }, (_, at) => rest.slice(2 * at, 2 * at + 2))
        const order = pairs.map((pair) => [numbers.next().value, pair] as const).sort(([a], [b]) => a - b)
        assert.deepEqual(lineOf([first, ...order.flatMap(([, pair]) => pair)].join('-')), line)
        assert.equal(baseOf(written), line.base)
      }),
    )
  })

  test('is parsed or refused by token for any text, and writes back its own text', () => {
    const token = fc.constantFrom(
      'country',
      'us',
      'state',
      'session',
      'a',
      'limit',
      '7',
      '',
      'set',
      'strict',
      'off',
    )
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.array(token).map((all) => [base, ...all].join('-')),
        ),
        (text) => {
          const parsed = parseUsername(text)
          if (parsed.ok) assert.deepEqual(lineOf(writeUsername(parsed.line)), parsed.line)
          else assert.ok(parsed.problem.detail.length > 0)
        },
      ),
    )
  })

  test('may be the base alone, and a session without a lifetime lasts ten minutes', () => {
    assert.deepEqual(lineOf(base), {
      base,
      targeting: anyTargeting,
      session: null,
      limitMegabytes: null,
      set: null,
    })
    assert.deepEqual(lineOf(`${base}-session-Cart_7`).session, { id: 'Cart_7', lifetimeMinutes: 10 })
    assert.equal(lineOf(`${base}-strict-on-udp-off`).targeting.strict, true)
  })

  test('ignores case and percent encoding, except in session ids', () => {
    for (const [written, meant] of [
      [
        '-country-US-city-Los_Angeles-os-Windows-strict-OFF',
        '-country-us-city-los_angeles-os-windows-strict-off',
      ],
      ['-not.country-US,De-not.city-DALLAS', '-not.country-us,de-not.city-dallas'],
      ['-not.country-us%2Cde', '-not.country-us,de'],
      ['-not.asn-1%2c2', '-not.asn-1,2'],
      ['%2Dcountry%2Dus%2Dcity%2Dlos%5Fangeles', '-country-us-city-los_angeles'],
      ['-session-Cart%5F7-lifetime-30', '-session-Cart_7-lifetime-30'],
    ] as const)
      assert.deepEqual(lineOf(base + written), lineOf(base + meant), written)
    assert.notDeepEqual(lineOf(`${base}-session-a`), lineOf(`${base}-session-A`))
    assert.equal(baseOf(`${base}%2Dcountry-us`), base)
  })

  for (const [rest, token] of [
    ['-contry-us', 'contry'],
    ['-COUNTRY-us', 'COUNTRY'],
    ['-country', 'country'],
    ['-', ''],
    ['-country-', 'country-'],
    ['-country-usa', 'country-usa'],
    ['-country-zz', 'country-zz'],
    ['-country-us-country-de', 'country-de'],
    ['-state-texas', 'state-texas'],
    ['-city-dallas', 'city-dallas'],
    ['-isp-comcast', 'isp-comcast'],
    ['-country-us-state-texas-city-dallas', 'state-texas'],
    ['-country-us-city-los angeles', 'city-los angeles'],
    ['-country-us-city-los__angeles', 'city-los__angeles'],
    [`-country-us-city-${'x'.repeat(65)}`, `city-${'x'.repeat(65)}`],
    ['-asn-0', 'asn-0'],
    ['-asn-4294967296', 'asn-4294967296'],
    ['-asn-AS7922', 'asn-AS7922'],
    ['-os-linux', 'os-linux'],
    ['-strict-no', 'strict-no'],
    ['-udp-1', 'udp-1'],
    ['-session-a.b', 'session-a.b'],
    [`-session-${'a'.repeat(33)}`, `session-${'a'.repeat(33)}`],
    ['-session-a-lifetime-0', 'lifetime-0'],
    ['-session-a-lifetime-1441', 'lifetime-1441'],
    ['-session-a-lifetime-1e2', 'lifetime-1e2'],
    ['-lifetime-10', 'lifetime-10'],
    ['-limit-10', 'limit-10'],
    ['-session-a-limit-0', 'limit-0'],
    ['-not.country-us,', 'not.country-us,'],
    ['-not.country-us,us', 'not.country-us,us'],
    ['-not.country-us,US', 'not.country-us,us'],
    ['-country-%75%', 'country-u%'],
    ['-session-a%2Fb', 'session-a/b'],
    ['-session-a%252Cb', 'session-a%2Cb'],
    ['-country-us-not.country-us', 'not.country-us'],
    ['-asn-7922-not.asn-1,7922', 'not.asn-1,7922'],
    ['-not.asn-1,x', 'not.asn-1,x'],
    [
      `-not.asn-${Array.from({ length: 21 }, (_, n) => n + 1)}`,
      `not.asn-${Array.from({ length: 21 }, (_, n) => n + 1)}`,
    ],
    ['-set-short', 'set-short'],
    ['-set-abcdefgh-country-us', 'set-abcdefgh'],
  ] as const)
    test(`is refused by its token in "${rest.slice(0, 60)}"`, () => {
      const parsed = parseUsername(base + rest)
      assert.ok(!parsed.ok, 'it was taken')
      assert.equal(parsed.problem.token, token)
    })

  test('is refused with its length when it is too long', () => {
    const parsed = parseUsername(`${base}-not.city-${'b,'.repeat(145)}`)
    assert.ok(!parsed.ok, 'it was accepted')
    assert.match(parsed.problem.detail, /^it has 30\d bytes, and at most 255 are accepted, as in SOCKS5: /)
  })

  test('is refused when it is too long or does not start with a plan', () => {
    for (const name of [
      `${base}-session-${'a'.repeat(32)}-not.city-${'b,'.repeat(120)}b`,
      'abc',
      'Abcdef',
      '',
    ])
      assert.ok(!parseUsername(name).ok, name)
  })
})
