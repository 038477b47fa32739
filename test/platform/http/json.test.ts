import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { ApiError } from '../../../src/platform/http/errors.ts'
import { isFraction, parseJson } from '../../../src/platform/http/read-body.ts'
import fc, { anyChar, runs } from '../../support/fast-check.ts'

const parse = (text: string | Buffer): unknown => parseJson(Buffer.from(text as string)).value

const refused = (text: string | Buffer, reason: RegExp): void => {
  assert.throws(
    () => parse(text),
    (error: unknown) =>
      error instanceof ApiError && error.code === 'invalid_body' && reason.test(error.message),
    String(text),
  )
}

/** A JSON value as a client may mean it: keys without `__proto__`, texts without NUL. */
const meant = fc
  .jsonValue({ maxDepth: 5, stringUnit: 'binary' })
  .filter((value) => !/\\u0000|__proto__/.test(JSON.stringify(value)))

describe('Reading a body', () => {
  test('gives what JSON.parse gives for every valid body', () => {
    fc.assert(
      fc.property(meant, fc.constantFrom(undefined, 2), (value, indent) => {
        assert.deepEqual(parse(JSON.stringify(value, null, indent)), JSON.parse(JSON.stringify(value)))
      }),
    )
  })

  test('ignores one byte order mark at the start, and accepts none elsewhere', () => {
    assert.deepEqual(parse('\ufeff{"quantity":1}'), { quantity: 1 })
    assert.equal(parse('\ufeff'), undefined)
    refused('\ufeff\ufeff{}', /not valid JSON/)
    refused('{}\ufeff', /not valid JSON/)
  })

  test('refuses bytes of any kind with invalid_body and nothing else', () => {
    const noise = fc.oneof(
      fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
      fc
        .string({ unit: fc.constantFrom(...'{}[]":,\\u0dD8e1.-+ntf\u0000'), maxLength: 60 })
        .map((text) => Buffer.from(text)),
    )
    fc.assert(
      fc.property(noise, (bytes) => {
        try {
          parseJson(bytes)
        } catch (error) {
          assert.ok(error instanceof ApiError && error.code === 'invalid_body', String(error))
        }
      }),
      { numRuns: runs(3_000) },
    )
  })

  test('refuses a field that occurs twice, at any depth', () => {
    fc.assert(
      fc.property(
        meant,
        fc.string({ unit: anyChar }).filter((key) => key !== '__proto__' && !key.includes('\u0000')),
        (value, key) => {
          const member = `${JSON.stringify(key)}:${JSON.stringify(value)}`
          refused(`[{${member}, ${member}}]`, /twice/)
        },
      ),
    )
    assert.deepEqual(parse('{"a:b":{"a":":"},"c":"\\":\\\\"}'), { 'a:b': { a: ':' }, c: '":\\' })
  })

  test('refuses more values than any body needs before it reads them, in any spelling', () => {
    const list = (item: string, count: number): string => `{"ids":[${Array(count).fill(item).join(',')}]}`
    for (const item of ['1', '""', '[]', '{}', '1.0000000000000001']) {
      assert.equal((parse(list(item, 2_000)) as { ids: unknown[] }).ids.length, 2_000)
      refused(list(item, 2_001), /more than 2000 values/)
    }
    refused(
      `{${Array.from({ length: 2_001 }, (_, at) => `"field${at}":1`).join(',')}}`,
      /more than 2000 values/,
    )
    // The content of a text does not count, and a body need not be JSON to be refused.
    assert.deepEqual(parse(`{"label":"${',"'.replace('"', '\\"').repeat(5_000)}"}`), {
      label: ',"'.repeat(5_000),
    })
    refused(`"${','.repeat(5_000)}`, /not valid JSON/)
    refused(`"${'\\'.repeat(5_001)}`, /not valid JSON/)
  })

  test('refuses NUL, lone surrogates and __proto__ in texts and names, at any depth', () => {
    for (const wrap of [(json: string) => json, (json: string) => `[[{"a":${json}}]]`]) {
      refused(wrap('"a\\u0000"'), /NUL/)
      refused(wrap('{"a\\u0000":1}'), /NUL/)
      refused(wrap('"\\ud800"'), /surrogate/)
      refused(wrap('{"\\udc00x":1}'), /surrogate/)
      refused(wrap('{"__proto__":{"admin":true}}'), /__proto__/)
      refused(wrap('{"\\u005f_proto__":1}'), /__proto__/)
    }
    assert.equal(parse('"\\ud83d\\ude00"'), '😀')
  })

  test('refuses nesting deeper than 32 levels, however deep', () => {
    const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`
    assert.ok(parse(nested(32)))
    for (const depth of [33, 1_000, 100_000]) refused(nested(depth), /nested deeper/)
    refused(`${'{"a":'.repeat(40)}1${'}'.repeat(40)}`, /nested deeper/)
  })

  test('refuses everything but UTF-8 JSON', () => {
    refused(Buffer.from([0x22, 0xff, 0x22]), /UTF-8/)
    refused(Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]), /UTF-8/)
    for (const text of [
      '{',
      '{"a":1,}',
      "{'a':1}",
      ' ',
      'NaN',
      '{"a":NaN}',
      '{"a":01}',
      '[1] [2]',
      '{"a":.5}',
    ])
      refused(text, /not valid JSON/)
  })

  test('refuses a number beyond every double with that reason', () => {
    assert.equal(parseJson(Buffer.from('{"a":1e999}')).overflowing, true)
    assert.equal(parseJson(Buffer.from('{"a":1e300}')).overflowing, false)
  })

  test('refuses numbers that are longer than any number needs, before it reads them', () => {
    const zeros = '0'.repeat(250_000)
    for (const number of [`0.${zeros}1`, `1${zeros}`, `-1.5${zeros}`, `1e-${zeros}1`, `1e+${zeros}`, zeros])
      refused(`{"quantity":${number}}`, /a number of more than 100 characters/)
    assert.deepEqual(parse(`[1.${'0'.repeat(98)}]`), [1])
    refused(`[1.${'0'.repeat(99)}]`, /more than 100 characters/)
    const text = '1'.repeat(5_000)
    assert.deepEqual(parse(`{"label":"${text}","${text}":1}`), { label: text, [text]: 1 })
  })

  test('detects a fraction in at most linear time', () => {
    const source = `0.${'0'.repeat(100_000)}1`
    const cpuMs = () => process.cpuUsage().user / 1000
    const before = cpuMs()
    assert.equal(isFraction(source), true)
    // A backtracking search takes ten seconds.
    assert.ok(cpuMs() - before < 1_000)
  })

  test('never reads a written fraction as a whole number', () => {
    fc.assert(
      fc.property(
        fc.bigInt({ min: 0n, max: 10n ** 20n }),
        fc.nat(40),
        fc.integer({ min: -30, max: 30 }),
        (digits, point, exponent) => {
          const padded = String(digits).padStart(point + 1, '0')
          const mantissa = point === 0 ? padded : `${padded.slice(0, -point)}.${padded.slice(-point)}`
          const source = `${mantissa.replace(/^0+(?=\d)/, '')}e${exponent}`
          const shift = exponent - point
          const whole = shift >= 0 || digits % 10n ** BigInt(-shift) === 0n
          assert.equal(isFraction(source), !whole, source)
          const read = parse(`[${source}]`) as number[]
          assert.equal(Number.isInteger(read[0]), whole, source)
        },
      ),
      { numRuns: runs(2_000) },
    )
  })
})
