import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { eventDictionary, eventsPage } from '../../src/audit/event-dictionary-page.ts'
import { declaredKinds } from '../support/event-kinds.ts'

const docs = join(import.meta.dirname, '../../docs')

test('docs/decisions/0075 names the invariants of every kind of event, and only existing kinds', () => {
  const page = readFileSync(join(docs, 'decisions/0075-verification-decides-events-again.md'), 'utf8')
  const table = page.slice(page.indexOf('| Events | Invariants |'))
  const named = [...table.matchAll(/`([A-Z][A-Za-z]+)`/g)].map(([, kind]) => kind)
  assert.deepEqual(named.toSorted(), Object.keys(eventDictionary().events).toSorted())
})

test('the dictionary has every kind of event in the sources, and every field has a meaning', () => {
  const { events } = eventDictionary()
  assert.deepEqual(Object.keys(events).sort(), [...declaredKinds()].sort())
  const rows = eventsPage().match(/^\| `.*$/gm) ?? []
  assert.ok(rows.length > 400, `${rows.length} fields`)
  for (const row of rows) assert.doesNotMatch(row, /\| {2}\|$/, row)
})
