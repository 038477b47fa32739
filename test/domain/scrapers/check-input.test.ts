import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  type CheckedInput,
  checkInput,
  comparableInput,
  packed,
} from '../../../src/domain/scrapers/check-input.ts'
import type { Input, InputValue, ScraperRow } from '../../../src/domain/scrapers/scraper.ts'
import { exampleBody, rowName } from '../../../src/domain/scrapers/scraper.ts'
import { scraperOf, scrapers } from '../../../src/domain/scrapers/scraper-table.ts'
import { canonicalJson } from '../../../src/kernel/json-text.ts'
import { row } from '../../features/scrapers/provider-world.ts'
import fc from '../../support/fast-check.ts'

const word = fc.stringMatching(/^[a-z0-9]{1,20}$/)

/** Values that fit an input. */
const good = (input: Input): fc.Arbitrary<unknown> => {
  if (input.values) return fc.constantFrom(...input.values)
  switch (input.kind) {
    case 'boolean':
      return fc.boolean()
    case 'integer':
      return fc.integer()
    case 'page':
      return fc
        .integer({ min: 1, max: input.max ?? 10_000 })
        .chain((page) => fc.constantFrom(page, String(page)))
    case 'date':
      return fc
        .date({ min: new Date('2000-01-01'), max: new Date('2099-01-01'), noInvalidDate: true })
        .map((date) => date.toISOString().slice(0, 10))
    case 'url':
      return fc
        .tuple(fc.constantFrom(...(input.hosts ?? [])), fc.constantFrom('', 'www.', 'm.'), fc.webPath())
        .map(([host, sub, path]) => `https://${sub}${host}/page${path}`)
    case 'country':
    case 'language':
      return fc.stringMatching(/^[a-zA-Z]{2}$/)
    case 'countries':
      return fc
        .array(fc.stringMatching(/^[A-Z]{2}$/), { minLength: 1, maxLength: 5 })
        .map((list) => list.join(','))
    case 'handle':
      return word.map((name) => `@${name}`)
    case 'hashtag':
      return word.map((name) => ` #${name} `)
    default:
      return word
  }
}

/** The hosts that lie below no other of them. */
const topmost = (hosts: readonly string[]): readonly string[] =>
  hosts.filter((host) => !hosts.some((other) => host.endsWith(`.${other}`)))

/** Values that do not. */
const bad = (input: Input): fc.Arbitrary<unknown> => {
  const shapes = fc.constantFrom<unknown>({}, [], ['x'], '', '   ', 'x'.repeat(8_193), 1.5, -1)
  switch (input.kind) {
    case 'boolean':
      return fc.oneof(shapes, fc.constantFrom('true', 0, 1))
    case 'page':
      return fc.oneof(shapes, fc.constantFrom(true, 0, '0', (input.max ?? 10_000) + 1, 'two', '1.0'))
    case 'integer':
      return fc.oneof(shapes, fc.constantFrom(true, '7', 8))
    case 'url':
      return fc.oneof(
        shapes,
        fc.constantFrom(true, 7),
        fc.constantFrom(
          ...(input.hosts ?? []).flatMap((host) => [
            `http://${host}/x`,
            `https://${host}.evil.example/x`,
            `https://user@${host}/x`,
            `https://${host}:8443/x`,
            `https:\\\\${host}/x`,
            `https://evil.example\\@${host}/x`,
            `https://evil.example/#https://${host}`,
            `${host}/x`,
            `//${host}/x`,
            `https://127.0.0.1/x`,
          ]),
          // Where `twitch.tv` is taken, so is `evil-clips.twitch.tv`: only the topmost hosts show this refusal.
          ...topmost(input.hosts ?? []).map((host) => `https://evil-${host}/x`),
        ),
      )
    case 'date':
      return fc.oneof(shapes, fc.constantFrom('2026-02-30', '2026-13-01', '31.01.2026', '2026-1-1', 20260131))
    case 'country':
    case 'language':
      return fc.oneof(shapes, fc.constantFrom(true, 'USA', 'u', '12', 'ü1'))
    case 'countries':
      return fc.oneof(shapes, fc.constantFrom('USA', 'US;CA', 'US,', 'US, CA'))
    case 'handle':
    case 'hashtag':
      return fc.oneof(
        shapes,
        fc
          .constantFrom('@', '#', ' @ ', true, 7)
          .filter(
            (value) =>
              value !== (input.kind === 'handle' ? '#' : '@') &&
              value !== (input.kind === 'hashtag' ? ' @ ' : ''),
          ),
      )
    default:
      return input.values
        ? fc.oneof(shapes, fc.constantFrom('no-such-value', true))
        : fc.oneof(shapes, fc.constantFrom(true, 7))
  }
}

const isPosition = (of: ScraperRow, { name }: Input): boolean => name === of.paging?.second

/** Accepted bodies: the required fields, one of each group, and any of the others. */
const goodBody = (of: ScraperRow): fc.Arbitrary<Record<string, unknown>> => {
  const halves = of.paging?.second !== undefined
  const free = of.inputs.filter((input) => !(halves && (isPosition(of, input) || input.name === 'cursor')))
  const needed = new Set([
    ...of.inputs.filter(({ required }) => required).map(({ name }) => name),
    ...of.oneOf.map(([name = '']) => name),
    ...of.needs.map(({ needs }) => needs),
  ])
  return fc
    .record(Object.fromEntries(free.map((input) => [input.name, good(input)])), {
      requiredKeys: free.map(({ name }) => name).filter((name) => needed.has(name)),
    })
    .map((body: Record<string, unknown>) => {
      const { start_date: start, end_date: end } = body
      if (typeof start !== 'string' || typeof end !== 'string' || start <= end) return body
      return { ...body, start_date: end, end_date: start }
    })
}

const refusalOf = (checked: CheckedInput) => (checked.ok ? assert.fail('it was accepted') : checked.refusal)

describe('the check of a body, for each of the 117 scrapers', () => {
  test('accepts valid bodies, trimmed and without additional fields', () => {
    for (const of of scrapers)
      fc.assert(
        fc.property(goodBody(of), (body) => {
          const checked = checkInput(of, body)
          assert.ok(checked.ok, `${rowName(of)} ${JSON.stringify(body)} ${JSON.stringify(checked)}`)
          assert.deepEqual(Object.keys(checked.input).sort(), Object.keys(body).sort())
          for (const { name, kind } of of.inputs) {
            const value: InputValue | undefined = checked.input[name]
            if (typeof value === 'string') assert.equal(value, value.trim())
            if (kind === 'handle' || kind === 'hashtag') assert.doesNotMatch(String(value ?? ''), /^[@#]/)
            if (kind === 'page' && value !== undefined) assert.equal(typeof value, 'number')
          }
          // A checked input is accepted again unchanged: a retry has the same fingerprint.
          assert.deepEqual(checkInput(of, checked.input), checked)
        }),
        { numRuns: 10 },
      )
  })

  test('refuses each invalid field and names it with the accepted values', () => {
    for (const of of scrapers)
      for (const input of of.inputs)
        fc.assert(
          fc.property(goodBody(of), bad(input), (body, value) => {
            if (input.values?.includes(value as InputValue)) return
            const { code, details } = refusalOf(checkInput(of, { ...body, [input.name]: value }))
            assert.equal(code, 'bad_input', rowName(of))
            assert.ok(details.startsWith(`${input.name} `), details)
            assert.match(details, /must (?:be|come|have)/)
          }),
          { numRuns: 5 },
        )
  })

  test('refuses unknown fields and missing fields', () => {
    for (const of of scrapers) {
      const [body] = fc.sample(goodBody(of), { numRuns: 1, seed: 7 })
      const { code, details } = refusalOf(checkInput(of, { ...body, no_such_field: 1 }))
      assert.equal(code, 'unknown_field')
      assert.ok(details.startsWith('no_such_field: '), details)
      for (const names of [
        ...of.inputs.filter(({ required }) => required).map(({ name }) => [name]),
        ...of.oneOf,
      ]) {
        const less = Object.fromEntries(Object.entries(body ?? {}).filter(([name]) => !names.includes(name)))
        const missing = refusalOf(checkInput(of, less))
        assert.equal(missing.code, 'bad_input')
        for (const name of names) assert.ok(missing.details.includes(name), missing.details)
        if (names.length === 2)
          assert.ok(missing.details.startsWith(`${names.join(' or ')} must be given`), missing.details)
      }
    }
  })
})

test('short links are refused, because a provider may not follow them; links that name their target are not', () => {
  const isTaken = (name: string, url: string): boolean => {
    const [platform, operation] = name.split('/') as [string, string]
    return checkInput(scraperOf(platform, operation)!, { url }).ok
  }
  for (const [name, url] of [
    ['tiktok/video', 'https://vm.tiktok.com/ZMabc'],
    ['tiktok/video', 'https://vt.tiktok.com/ZMabc/'],
    ['tiktok/video', 'https://www.tiktok.com/t/ZMabc/'],
    ['reddit/comments', 'https://redd.it/abc'],
    ['reddit/comments', 'https://www.reddit.com/r/node/s/AbCd'],
    ['facebook/post', 'https://fb.watch/abc'],
    ['facebook/post', 'https://www.facebook.com/share/p/abc'],
    ['instagram/post', 'https://www.instagram.com/share/abc'],
    ['pinterest/pin', 'https://pin.it/abc'],
  ] as const)
    assert.equal(isTaken(name, url), false, url)
  for (const [name, url] of [
    ['tiktok/video', 'https://m.tiktok.com/@t/video/1'],
    ['reddit/comments', 'https://old.reddit.com/r/s/comments/abc/s/'],
    ['youtube/video', 'https://youtu.be/dQw4w9WgXcQ'],
    ['facebook/post', 'https://fb.com/nasa/posts/1'],
  ] as const)
    assert.equal(isTaken(name, url), true, url)
})

test('bodies that ask for the same are equal: written defaults, forms of a link, parts of a position', () => {
  const same = (name: string, ...bodies: readonly Record<string, unknown>[]) => {
    const texts = bodies.map((body) => {
      const checked = checkInput(row(name), body)
      assert.ok(checked.ok, JSON.stringify(body))
      return canonicalJson(comparableInput(row(name), checked.input))
    })
    assert.equal(new Set(texts).size, 1, texts.join(' '))
  }
  for (const of of scrapers)
    for (const input of of.inputs.filter(({ default: value }) => value !== undefined))
      same(rowName(of), exampleBody(of), { ...exampleBody(of), [input.name]: input.default })
  const link = 'https://www.tiktok.com/@nasa/video/1'
  const forms = [
    link,
    'HTTPS://WWW.TikTok.com/@nasa/video/1',
    'https://www.tiktok.com:443/@nasa/video/1',
    `${link}#top`,
    `${link}?`,
    ` ${link}?#`,
  ]
  same('tiktok/video', ...forms.map((url) => ({ url })))
  const [url, cursor, next_page_id] = ['https://www.facebook.com/NASA', 'AQHS', 'YXBw']
  same(
    'facebook/profile-reels',
    { url, cursor, next_page_id },
    { url, cursor: packed({ first: cursor, second: next_page_id }) },
  )
})

test('a default that is written out is sent to the provider', () => {
  const checked = checkInput(row('youtube/channel-shorts'), { handle: 'nasa', sort: 'newest' })
  assert.deepEqual(checked, { ok: true, input: { handle: 'nasa', sort: 'newest' } })
})

test('null counts as omitted, and a misspelt field is reported with the nearest name', () => {
  const profile = row('tiktok/profile')
  assert.ok(checkInput(profile, { handle: 'nasa', user_id: null }).ok)
  assert.match(refusalOf(checkInput(profile, { handel: 'nasa' })).details, /did you mean handle\?/)
})

test('rules between fields are checked: dates in order, political ads with a region, both halves of a position', () => {
  const ads = row('google/ad-company')
  const company = { domain: 'example.com' }
  assert.match(
    refusalOf(checkInput(ads, { ...company, topic: 'political' })).details,
    /^region must be given/,
  )
  assert.ok(checkInput(ads, { ...company, topic: 'political', region: 'US' }).ok)
  const days = { start_date: '2026-01-31', end_date: '2026-01-30' }
  assert.match(refusalOf(checkInput(ads, { ...company, ...days })).details, /^end_date must be/)
  const reels = row('facebook/profile-reels')
  const url = 'https://www.facebook.com/NASA'
  assert.match(refusalOf(checkInput(reels, { url, cursor: 'AQHS' })).details, /next_page_id/)
  assert.match(refusalOf(checkInput(reels, { url, next_page_id: 'AQHS' })).details, /^next_page_id must come/)
  assert.ok(checkInput(reels, { url, cursor: 'AQHS', next_page_id: 'YXBw' }).ok)
})
