import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { eventDictionary, eventsPage } from '../../src/books/audit/events-page.ts'
import { declaredKinds } from '../support/event-kinds.ts'

const docs = join(import.meta.dirname, '../../docs')

test('docs/events.md and docs/events.json are up to date: npx farebox ledger events > docs/events.md, and --json', () => {
  assert.equal(readFileSync(join(docs, 'events.md'), 'utf8'), eventsPage())
  assert.equal(
    readFileSync(join(docs, 'events.json'), 'utf8'),
    `${JSON.stringify(eventDictionary(), null, 1)}\n`,
  )
})

test('the dictionary has every kind that the sources declare, and every field has a meaning', () => {
  const { events } = eventDictionary()
  assert.deepEqual(Object.keys(events).sort(), [...declaredKinds()].sort())
  const rows = eventsPage().match(/^\| `.*$/gm) ?? []
  assert.ok(rows.length > 400, `${rows.length} fields`)
  for (const row of rows) assert.doesNotMatch(row, /\| {2}\|$/, row)
})
