import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { checkInput } from '../../../src/domain/scrapers/check-input.ts'
import { sampleOf } from '../../../src/domain/scrapers/sample.ts'
import { rowName } from '../../../src/domain/scrapers/scraper.ts'
import { platforms, scrapers } from '../../../src/domain/scrapers/scraper-table.ts'
import { fieldsIn } from '../../support/answer-fields.ts'
import { exampleOf, openScraping, openStandIn } from './provider-world.ts'

test('there are 117 scrapers on 23 platforms, each once, at their published prices', () => {
  assert.equal(scrapers.length, 117)
  assert.equal(new Set(scrapers.map(rowName)).size, 117)
  assert.equal(platforms.length, 23)
  const prices = Map.groupBy(scrapers, ({ priceMicros }) => priceMicros as number)
  assert.deepEqual(
    [...prices].map(([price, rows]) => [price, rows.length]).sort(([one = 0], [other = 0]) => one - other),
    [
      [3_000, 95],
      [5_000, 14],
      [30_000, 4],
      [33_000, 3],
      [78_000, 1],
    ],
  )
})

test('the scrapers are in alphabetical order', () => {
  const names = scrapers.map(rowName)
  assert.deepEqual(names, names.toSorted())
})

describe('every scraper works with the provider', () => {
  test("with its example: the fields of its sample arrive, marked as invented, without the provider's name", async (t) => {
    const standIn = await openStandIn(t)
    const { call } = openScraping(t, [{ name: 'first', baseUrl: standIn.baseUrl }])
    for (const row of scrapers) {
      const checked = checkInput(row, exampleOf(row))
      assert.ok(checked.ok, `${rowName(row)}: ${JSON.stringify(checked)}`)
      const { outcome, cost } = await call(row, checked.input)
      assert.ok(outcome.kind === 'found', `${rowName(row)}: ${JSON.stringify(outcome)}`)
      const text = JSON.stringify(outcome.data)
      assert.doesNotMatch(text, /credits_|scrapecreators|"success"/, rowName(row))
      assert.match(text, /stand-in /, rowName(row))
      assert.deepEqual([...fieldsIn(outcome.data).keys()], [...fieldsIn(sampleOf(row)).keys()], rowName(row))
      if (!row.answer.isBareList) assert.equal(cost.creditsCharged, row.source.credits, rowName(row))
    }
    const { total, calls } = await standIn.journal()
    assert.equal(total, 117)
    assert.ok(calls.every(({ status }) => status === 200))
  })

  test('page by page to the last one, and not beyond', async (t) => {
    const standIn = await openStandIn(t)
    const { call } = openScraping(t, [{ name: 'first', baseUrl: standIn.baseUrl }])
    for (const row of scrapers.filter(({ paging }) => paging !== null)) {
      const bodies = new Set<string>()
      let cursor: string | null = null
      for (let page = 1; page <= 4; page += 1) {
        const place = cursor === null ? {} : { [row.paging?.input ?? '']: cursor }
        const checked = checkInput(row, { ...exampleOf(row), ...place })
        assert.ok(checked.ok, `${rowName(row)}: ${JSON.stringify(checked)}`)
        const { outcome } = await call(row, checked.input)
        if (row.paging?.read === null && page === 4) {
          // Pages that are counted end with one that holds nothing.
          assert.ok(outcome.kind === 'nothing' || outcome.kind === 'found', rowName(row))
          assert.equal(outcome.nextCursor, null)
          break
        }
        assert.ok(outcome.kind === 'found', `${rowName(row)} ${page}: ${JSON.stringify(outcome)}`)
        bodies.add(JSON.stringify(outcome.data))
        cursor = outcome.nextCursor
        if (cursor === null) break
      }
      assert.equal(bodies.size, 3, rowName(row))
      const endsByItself = row.paging?.read !== null || row.paging.more !== undefined
      assert.equal(cursor === null, endsByItself, rowName(row))
    }
  })
})
