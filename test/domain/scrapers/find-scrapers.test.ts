import assert from 'node:assert/strict'
import { test } from 'node:test'
import { findScrapers, type ScraperQuery } from '../../../src/domain/scrapers/find-scrapers.ts'
import { placedFieldsOf } from '../../../src/domain/scrapers/sample.ts'
import { rowName } from '../../../src/domain/scrapers/scraper.ts'
import { scrapers } from '../../../src/domain/scrapers/scraper-table.ts'
import { parseDollarsToMicros } from '../../../src/kernel/money.ts'

const namesOf = (query: ScraperQuery): readonly string[] => findScrapers(query).map(rowName)

test('without a condition all scrapers are found, by name', () => {
  assert.deepEqual(namesOf({}), scrapers.map(rowName))
  assert.deepEqual(namesOf({ words: ' ' }), scrapers.map(rowName))
})

test('every word must match, in any order and case, in the name or elsewhere', () => {
  assert.equal(namesOf({ words: 'tiktok profile' })[0], 'tiktok/profile')
  assert.deepEqual(namesOf({ words: 'Profile  TIKTOK' }), namesOf({ words: 'tiktok profile' }))
  assert.ok(!namesOf({ words: 'tiktok profile' }).includes('reddit/subreddit'))
  assert.deepEqual(namesOf({ words: 'tiktok nosuchword' }), [])
})

test('words match summaries, fields and their meanings; matches in name and summary come first', () => {
  assert.deepEqual(namesOf({ words: 'subreddit rules' })[0], 'reddit/subreddit')
  assert.ok(namesOf({ words: 'tiktok digg_count' }).includes('tiktok/video'))
  assert.ok(namesOf({ words: 'tiktok number of likes' }).includes('tiktok/video'))
  const transcripts = namesOf({ words: 'transcript' })
  assert.ok(transcripts.includes('tiktok/video'))
  const isNamed = (name: string): boolean => name.includes('transcript')
  assert.ok(transcripts.findIndex((name) => !isNamed(name)) > transcripts.findLastIndex(isNamed))
})

test('a field is found at any depth, as platforms write it with and without underscores', () => {
  for (const field of ['followerCount', 'follower_count', 'FOLLOWERCOUNT']) {
    const names = namesOf({ field })
    for (const name of ['tiktok/profile', 'tiktok/followers', 'threads/profile'])
      assert.ok(names.includes(name), `${field} ${name}`)
    assert.ok(!names.includes('reddit/subreddit'))
  }
  const found = findScrapers({ field: 'author.name' })
  assert.ok(found.length > 0)
  for (const row of found)
    assert.ok(placedFieldsOf(row).some(({ path }) => path.toLowerCase().includes('author.name')))
})

test('the maximum price is included, and all conditions hold together', () => {
  const priced = (maxPriceUsd: string) => ({ maxPriceMicros: parseDollarsToMicros(maxPriceUsd) ?? undefined })
  assert.equal(namesOf(priced('0.0029')).length, 0)
  assert.equal(namesOf(priced('0.003')).length, 95)
  assert.equal(namesOf(priced('1')).length, 117)
  assert.deepEqual(namesOf({ words: 'facebook', field: 'email', ...priced('0.0029') }), [])
  assert.deepEqual(namesOf({ words: 'facebook', field: 'email', ...priced('0.003') }), [
    'facebook/profile',
    'pillar/page',
  ])
})
