import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { rowName, type ScraperRow } from '../../src/domain/scrapers/scraper.ts'
import { platforms, scrapers } from '../../src/domain/scrapers/scraper-table.ts'
import { dollarsOfMicros } from '../../src/kernel/money.ts'

const file = join(import.meta.dirname, '../../docs/scrapers.md')
const begin = 'in which each scraper is an operation of its own.\n'

const code = (name: string): string => `\`${name}\``

const fieldsText = (row: ScraperRow): string => {
  const grouped = new Set(row.oneOf.flat())
  const needed = [
    ...row.inputs.filter(({ required }) => required).map(({ name }) => code(name)),
    ...row.oneOf.map((names) => names.map(code).join(' or ')),
  ]
  const free = row.inputs
    .filter(({ name, required }) => !required && !grouped.has(name))
    .map(({ name }) => code(name))
  return [needed.join(', '), free.length === 0 ? '' : `(${free.join(', ')})`]
    .filter((text) => text !== '')
    .join(' ')
}

const line = (row: ScraperRow): string =>
  `| ${code(rowName(row))} | $${dollarsOfMicros(row.priceMicros)} | ${fieldsText(row)} | ${row.answer.description}.${row.note === null ? '' : ` ${row.note}.`} |`

const made = platforms
  .map(
    (platform) =>
      `### ${platform}\n\n| Scraper | Price | Fields | What it gives |\n|---|---|---|---|\n${scrapers
        .filter((row) => row.platform === platform)
        .map(line)
        .join('\n')}\n`,
  )
  .join('\n')

test('the reference of the guide equals the table of scrapers; FAREBOX_TEST_WRITE=on writes it', () => {
  const page = readFileSync(file, 'utf8')
  const at = page.indexOf(begin)
  assert.ok(at > 0, 'the guide has a place for it')
  const whole = `${page.slice(0, at)}${begin}\n${made}`
  if (process.env.FAREBOX_TEST_WRITE === 'on') writeFileSync(file, whole)
  else assert.equal(page, whole)
})
