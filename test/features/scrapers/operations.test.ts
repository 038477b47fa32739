import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { checkInput } from '../../../src/domain/scrapers/check-input.ts'
import { exampleBody, rowName } from '../../../src/domain/scrapers/scraper.ts'
import { scrapers } from '../../../src/domain/scrapers/scraper-table.ts'
import { operationRoutes, scrapeRoutes } from '../../../src/features/scrapers/routes.ts'
import { bodySchema } from '../../../src/features/scrapers/scraper-schemas.ts'
import { jsonSchemaOf } from '../../../src/platform/http/json-schema.ts'

test('only scrapers with cached answers declare cacheMaxAge', () => {
  const declared = scrapeRoutes({ scrapes: {} as never, clock: Date.now, rate: null })
    .flatMap(operationRoutes)
    .filter(({ query }) => 'cacheMaxAge' in query.shape)
    .map(({ path }) => path)
  const cacheable = scrapers.filter(({ source }) => source.isCacheable)
  assert.deepEqual(
    declared,
    cacheable.map((row) => `/v1/scrape/${rowName(row)}`),
  )
})

test('the interface description has the rules for each field of a scraper, and for several fields', () => {
  const ajv = new Ajv2020({ strict: false })
  addFormats.default(ajv)
  const candidates = ['', 'US', 'zz!', 'US,CA', 'US;CA', 'political', 'x'.repeat(9_000)]
  const values = [...candidates, 'http://example.com', 0, -1, 1, 1.5, 10_001, true, [], {}]
  for (const row of scrapers) {
    const isDescribed = ajv.compile(jsonSchemaOf(bodySchema(row), 'input'))
    const example = exampleBody(row)
    assert.ok(isDescribed(example), rowName(row))
    // A position of two parts is not checked by the schema.
    const names = row.inputs.map(({ name }) => name)
    for (const name of names.filter((each) => each !== 'cursor' || row.paging?.second === undefined))
      for (const value of [undefined, ...values]) {
        const body = JSON.parse(JSON.stringify({ ...example, [name]: value }))
        assert.equal(isDescribed(body), checkInput(row, body).ok, `${rowName(row)} ${JSON.stringify(body)}`)
      }
  }
})

test('the sample answer of each scraper fits the description of its answers', () => {
  const ajv = new Ajv2020({ strict: false })
  addFormats.default(ajv)
  for (const { path, responses } of scrapeRoutes({
    scrapes: {} as never,
    clock: Date.now,
    rate: null,
  }).flatMap(operationRoutes)) {
    const answer = responses[200]
    assert.ok(answer && 'body' in answer, path)
    const isDescribed = ajv.compile(jsonSchemaOf(answer.body, 'output'))
    assert.ok(isDescribed(answer.example), `${path}: ${JSON.stringify(isDescribed.errors)}`)
  }
})
