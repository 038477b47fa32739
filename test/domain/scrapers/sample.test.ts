import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkInput } from '../../../src/domain/scrapers/check-input.ts'
import { placedFieldsOf, sampleOf, valueAt } from '../../../src/domain/scrapers/sample.ts'
import { exampleBody, rowName } from '../../../src/domain/scrapers/scraper.ts'
import { scrapers } from '../../../src/domain/scrapers/scraper-table.ts'
import { fieldsIn } from '../../support/answer-fields.ts'

test('the sample answer of each scraper has every field in its type, and no other', () => {
  for (const row of scrapers) {
    const fields = placedFieldsOf(row)
    const sample = fieldsIn(sampleOf(row))
    assert.deepEqual([...sample.keys()].sort(), fields.map(({ path }) => path).sort(), rowName(row))
    for (const { path, type } of fields)
      if (type !== 'any') assert.equal(sample.get(path), type, `${rowName(row)} ${path}`)
  }
})

test('each field has a meaning; units and meanings are no sentences', () => {
  for (const row of scrapers)
    for (const { path, meaning, unit } of placedFieldsOf(row)) {
      assert.match(meaning, /^\S.*[^.\s]$/s, `${rowName(row)} ${path}`)
      if (unit !== null) assert.match(unit, /^\S.*[^.\s]$/, `${rowName(row)} ${path}`)
    }
})

test('sample answers have no links to real pages and no real mail addresses', () => {
  for (const row of scrapers)
    for (const [host] of JSON.stringify(sampleOf(row)).matchAll(/(?<=https?:\/\/|@)[\w-]+(\.[\w-]+)+/g))
      assert.match(host, /^(www\.)?example\.com$/, rowName(row))
})

test('the sample answer has the position, the flag and the field that tell how a call goes on', () => {
  for (const row of scrapers)
    for (const path of [row.paging?.read, row.paging?.more, row.paging?.second, row.nothingWhenNull])
      if (path) assert.notEqual(valueAt(sampleOf(row), path), undefined, `${rowName(row)} ${path}`)
})

test('each example is complete and valid', () => {
  for (const row of scrapers)
    for (const { name, example } of row.inputs) {
      assert.doesNotMatch(String(example), /\.\.\.|…/, `${rowName(row)} ${name}`)
      const second = row.paging?.second
      const other = row.inputs.find((input) => input.name === (name === second ? 'cursor' : second))
      const pair = other && [name, other.name].includes('cursor') ? { [other.name]: other.example } : {}
      const checked = checkInput(row, { ...exampleBody(row), ...pair, [name]: example })
      assert.ok(checked.ok, `${rowName(row)} ${name}: ${JSON.stringify(checked)}`)
    }
})
