import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { scrapers } from '../../../src/domain/scrapers/scraper-table.ts'
import { openStandIn } from './provider-world.ts'

/**
 * The provider's published protocol: one line for each operation, recorded separately from the table behind
 * the adapter and the stand-in. This test calls the stand-in by these facts alone.
 */
type Fact = {
  readonly path: string
  readonly methods: readonly ('GET' | 'POST')[]
  readonly required: readonly string[]
  readonly optional: readonly string[]
  readonly values: Readonly<Record<string, readonly (string | number)[]>>
  readonly oneOf: readonly (readonly string[])[]
  readonly credits: number
  readonly maxCredits: number
  readonly cacheable: boolean
  readonly cursor: {
    readonly send: string
    readonly read: string | null
    readonly more: string | null
    readonly also: string | null
  } | null
  readonly fields: readonly string[]
}
const facts: readonly Fact[] = JSON.parse(
  readFileSync(join(import.meta.dirname, 'published-facts.json'), 'utf8'),
)

type Query = Readonly<Record<string, string>>

const valueFor = ({ values }: Fact, name: string): string => {
  if (/url/i.test(name)) return 'https://example.com/anyone'
  return String(values[name]?.[0] ?? (name === 'page' ? 1 : 'anyone'))
}

const given = (fact: Fact): Query =>
  Object.fromEntries(
    [...fact.required, ...fact.oneOf.map(([name = '']) => name)].map((name) => [name, valueFor(fact, name)]),
  )

const without = (parameters: Query, names: readonly string[]): Query =>
  Object.fromEntries(Object.entries(parameters).filter(([name]) => !names.includes(name)))

// biome-ignore lint/suspicious/noExplicitAny: the body of an answer, of which any part is read
type Answered = { readonly status: number; readonly body: any }

const at = (body: unknown, path: string): unknown =>
  path.split('.').reduce((value, name) => (value as Record<string, unknown> | null)?.[name], body)

describe("The stand-in matches the provider's documentation", async () => {
  const open = async (t: TestContext) => {
    const { baseUrl } = await openStandIn(t)
    return async (path: string, parameters: Query, key = 'a-key', post = false): Promise<Answered> => {
      const query = new URLSearchParams(parameters).toString()
      const response = await fetch(`${baseUrl}${path}${post || query === '' ? '' : `?${query}`}`, {
        method: post ? 'POST' : 'GET',
        headers: {
          ...(key !== '' && { 'x-api-key': key }),
          ...(post && { 'content-type': 'application/json' }),
        },
        ...(post && { body: JSON.stringify(parameters) }),
      })
      const text = await response.text()
      return {
        status: response.status,
        body: text.startsWith('{') || text.startsWith('[') ? JSON.parse(text) : text,
      }
    }
  }

  test('117 paths, each once', () => {
    assert.equal(facts.length, 117)
    assert.equal(new Set(facts.map(({ path }) => path)).size, 117)
  })

  test('each path: its parameters, credits and fields', async (t) => {
    const ask = await open(t)
    for (const fact of facts) {
      const { path } = fact
      const { status, body } = await ask(path, given(fact))
      assert.equal(status, 200, `${path} ${JSON.stringify(body)}`)
      if (Array.isArray(body)) assert.equal(path, '/v1/twitch/clip', 'the one bare list')
      else {
        assert.equal(body.success, true, path)
        assert.equal(body.credits_charged, fact.credits, path)
        assert.deepEqual(
          fact.fields.filter((name) => !Object.hasOwn(body, name)),
          [],
          path,
        )
      }
      for (const name of fact.optional.filter(
        (name) => name !== fact.cursor?.send && name !== fact.cursor?.also,
      )) {
        const values = fact.values[name] ?? [valueFor(fact, name), 'true']
        const tried = await Promise.all(
          values.map((value) => ask(path, { ...given(fact), [name]: String(value) })),
        )
        assert.ok(
          tried.some((answer) => answer.status === 200),
          `${path} takes ${name}`,
        )
        if (fact.values[name])
          assert.equal(
            (await ask(path, { ...given(fact), [name]: 'no-such-value' })).status,
            400,
            `${path} ${name}`,
          )
      }
      for (const names of [...fact.required.map((name) => [name]), ...fact.oneOf])
        assert.equal(
          (await ask(path, without(given(fact), names))).status,
          400,
          `${path} without ${names.join()}`,
        )
      assert.equal((await ask(path, { ...given(fact), no_such_parameter: '1' })).status, 400, path)
      assert.equal(
        (await ask(path, given(fact), 'a-key', true)).status,
        fact.methods.includes('POST') ? 200 : 404,
        path,
      )
    }
  })

  test('options that cost more are charged at the maximum', async (t) => {
    const ask = await open(t)
    const dear = facts.filter(({ credits, maxCredits }) => maxCredits > credits)
    assert.equal(dear.length, 3)
    for (const fact of dear) {
      const option =
        fact.optional.find((name) => name === 'download_media' || name === 'use_ai_as_fallback') ?? ''
      const { body } = await ask(fact.path, { ...given(fact), [option]: 'true' })
      assert.equal(body.credits_charged, 11, fact.path)
    }
  })

  test('pages: by the names of the cursor and the flag, three of them', async (t) => {
    const ask = await open(t)
    for (const fact of facts) {
      const { cursor } = fact
      if (cursor === null) continue
      let place: Query = {}
      let pageCount = 0
      for (; pageCount < 5; pageCount += 1) {
        const { status, body } = await ask(fact.path, { ...given(fact), ...place })
        if (status === 404) break
        assert.equal(status, 200, `${fact.path} ${JSON.stringify(place)}`)
        const flag = cursor.more === null ? undefined : at(body, cursor.more.replace('!', ''))
        const isLast = flag !== undefined && Boolean(flag) === cursor.more?.startsWith('!')
        const next = cursor.read === null ? pageCount + 2 : at(body, cursor.read)
        if (
          isLast ||
          next === null ||
          (cursor.read === null && Object.values(body).some((v) => Array.isArray(v) && v.length === 0))
        ) {
          pageCount += isLast || next === null ? 1 : 0
          break
        }
        place = {
          [cursor.send]: String(next),
          ...(cursor.also !== null && { [cursor.also]: String(at(body, cursor.also)) }),
        }
      }
      assert.equal(pageCount, 3, fact.path)
      if (cursor.read !== null && !fact.required.includes(cursor.send))
        assert.equal(
          (await ask(fact.path, { ...given(fact), [cursor.send]: 'made-up' })).status,
          400,
          fact.path,
        )
    }
  })

  test('the answers that may be used again are those that the provider caches, too', () => {
    const pathsOf = (rows: readonly { readonly path: string }[]) => rows.map(({ path }) => path).sort()
    assert.deepEqual(
      pathsOf(scrapers.map(({ source }) => source).filter(({ isCacheable }) => isCacheable)),
      pathsOf(facts.filter(({ cacheable }) => cacheable)),
    )
  })

  test('keys and credits: 401 without a key, 402 without credits, and the balance', async (t) => {
    const ask = await open(t)
    const fact = facts[0]!
    assert.equal((await ask(fact.path, given(fact), '')).status, 401)
    assert.equal((await ask('/v1/account/credit-balance', {}, '')).status, 401)
    const before = (await ask('/v1/account/credit-balance', {})).body.creditCount
    const { body } = await ask(fact.path, given(fact))
    assert.equal(body.credits_remaining, before - fact.credits)
    assert.equal((await ask('/v1/account/credit-balance', {})).body.creditCount, before - fact.credits)
    assert.equal((await ask('/v1/nothing/profile', {})).status, 404)
  })
})
