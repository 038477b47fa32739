import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import { findScrapers } from '../../../src/domain/scrapers/find-scrapers.ts'
import { placedFieldsOf, sampleOf } from '../../../src/domain/scrapers/sample.ts'
import { rowName } from '../../../src/domain/scrapers/scraper.ts'
import { scrapers } from '../../../src/domain/scrapers/scraper-table.ts'
import { dollarsOfMicros, micros } from '../../../src/kernel/money.ts'
import { type Document, httpClient } from '../../support/http.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

type Operation = {
  readonly operationId: string
  readonly requestBody: { readonly content: Readonly<Record<string, { readonly example: object }>> }
  readonly responses: Readonly<Record<string, { readonly $ref?: string }>>
}

/** Does them sixteen at a time. */
const atOnce = async <Item>(items: readonly Item[], work: (item: Item) => Promise<void>): Promise<void> => {
  const left = [...items]
  const some = async (): Promise<void> => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await work(item)
  }
  await Promise.all(Array.from({ length: 16 }, some))
}

describe('the HTTP interface of the scrapers', () => {
  test('every scraper works over HTTP as described, is charged its price, and is called once', async (t) => {
    const app = await testApp(t, { own: 'file' })
    const { baseUrl, demo } = app
    const { accountId, key } = demo.scraper
    const document = (await (await fetch(`${baseUrl}/openapi.json`)).json()) as Document
    const checked = await new Validator().validate(structuredClone(document))
    assert.ok(checked.valid, JSON.stringify(checked.errors))
    const client = httpClient(baseUrl, document, key)

    const generic = document.paths['/v1/scrape/{platform}/{operation}']?.post as Operation
    const available = async (): Promise<number> => {
      const { rows } = await app.core.pool.query<{ micros: string }>(
        `select available_micros::text as micros from read.balances where account_id = $1::text`,
        [accountId],
      )
      return Number(rows[0]?.micros)
    }
    const before = await available()
    const live = scrapers.filter(({ source }) => !source.isWithdrawn)
    await atOnce(live, async (row) => {
      const path = `/v1/scrape/${rowName(row)}`
      const operation = document.paths[path]?.post as Operation
      assert.deepEqual(
        Object.keys(operation.responses).filter((status) => status !== '404'),
        Object.keys(generic.responses).filter((status) => status !== '404'),
        path,
      )
      const example = operation.requestBody.content['application/json']?.example ?? {}
      const headers = { 'X-Request-Id': `call ${path}` }
      const first = await client.post(path, example, { headers })
      assert.equal(first.status, 200, `${path} ${first.text}`)
      assert.equal(first.headers.get('x-price-usd'), dollarsOfMicros(row.priceMicros))
      assert.deepEqual(first.body.billing, { priceUsd: dollarsOfMicros(row.priceMicros), billed: true })
      const again = await client.post(path, example, { headers })
      assert.equal(again.text, first.text, path)
      assert.ok(client.seen.has(`${operation.operationId} 200`), path)
    })
    // Refused calls are neither sent nor billed: the sums below show it.
    await atOnce(scrapers, async (row) => {
      const path = `/v1/scrape/${rowName(row)}`
      const strange = await client.post(path, { no_such_field: 1 })
      assert.deepEqual([strange.status, strange.body.code], [400, 'unknown_field'], path)
      const [input] = row.inputs
      if (input === undefined) return
      const wrong = await client.post(path, { [input.name]: { nested: true } })
      assert.deepEqual([wrong.status, wrong.body.code], [400, 'bad_input'], path)
      assert.ok(wrong.body.details.startsWith(`${input.name} must be `), wrong.text)
      assert.equal(wrong.headers.get('x-billed'), 'false')
    })
    const cost = live.reduce((sum, { priceMicros }) => sum + priceMicros, 0)
    await until(async () => (await available()) === before - cost)
    const { sandbox } = demo
    const journal = (await (await fetch(`${sandbox}/_sandbox/scrapers/journal`)).json()) as { total: number }
    assert.deepEqual([journal.total, live.length], [116, 116])
    // The platform removed the page of one.
    const removed = await client.post('/v1/scrape/tiktok/popular-hashtags', {})
    assert.deepEqual([removed.status, removed.body.code], [503, 'scraper_unavailable'])
    assert.equal(removed.headers.get('x-billed'), 'false')

    const list = await client.get('/v1/scrape')
    assert.equal(list.body.total, 117)
    for (const [at, row] of scrapers.entries()) {
      const shown = list.body.scrapers[at]
      assert.equal(shown.path, `/v1/scrape/${rowName(row)}`)
      assert.deepEqual(
        [shown.state, shown.priceUsd],
        [live.includes(row) ? 'live' : 'unavailable', dollarsOfMicros(row.priceMicros)],
      )
      const operation = document.paths[shown.path]?.post as Operation
      assert.deepEqual(shown.example, operation.requestBody.content['application/json']?.example, shown.path)
    }
    for (const [query, expected] of [
      ['q=tiktok%20profile', { words: 'tiktok profile' }],
      ['q=TRANSCRIPT&maxPriceUsd=0.03', { words: 'transcript', maxPriceMicros: micros(30_000) }],
      ['field=follower_count', { field: 'followerCount' }],
    ] as const)
      assert.deepEqual(
        (await client.get(`/v1/scrape?${query}`)).body.scrapers.map(
          ({ path }: { readonly path: string }) => path,
        ),
        findScrapers(expected).map((row) => `/v1/scrape/${rowName(row)}`),
      )
    await atOnce(scrapers, async (row) => {
      const { status, body } = await client.get(`/v1/scrape/${rowName(row)}`)
      assert.equal(status, 200, rowName(row))
      assert.deepEqual(body.sample.data, sampleOf(row))
      assert.deepEqual(
        body.dataFields.map(({ path }: { readonly path: string }) => path),
        placedFieldsOf(row).map(({ path }) => path),
      )
    })
    assert.equal((await client.get('/v1/scrape/reddit')).body.total, 5)
  })

  test('a batch reports an input that is not an object by its position, counted from 1 as for other inputs', async (t) => {
    const { baseUrl, demo } = await testApp(t, { own: 'file' })
    const refusal = async (...inputs: readonly unknown[]): Promise<string> => {
      const answer = await fetch(`${baseUrl}/v1/scrape/batch`, {
        method: 'POST',
        headers: { 'X-API-Key': demo.scraper.key, 'Content-Type': 'application/json' },
        body: JSON.stringify({ platform: 'reddit', operation: 'subreddit', inputs }),
      })
      assert.equal(answer.status, 400)
      return ((await answer.json()) as { readonly error: string }).error
    }
    const good = { subreddit: 'node' }
    for (const bad of [null, 7, 'node', []]) assert.match(await refusal(good, bad), /^input 2: /)
    assert.match(await refusal(good, { subreddit: 7 }), /^input 2: /)
  })
})
