import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { settingsHelp } from '../../src/app/settings-command.ts'

const root = join(import.meta.dirname, '../..')
const read = (name: string): string => readFileSync(join(root, name), 'utf8')
const known = new Map(settingsHelp().map((setting) => [setting.name, setting]))

/** Of the tests, and of the receiver in docs/webhooks.md: no settings of the service. */
const others = /^FAREBOX_(TEST_|(URL|KEY)$)/

test('every setting that a page or the container names exists', () => {
  const pages = ['README.md', 'docker-compose.yml', 'Dockerfile', ...globSync('docs/*.md', { cwd: root })]
  for (const page of pages)
    for (const [name] of read(page).matchAll(/\bFAREBOX_[A-Z_]*[A-Z]\b/g))
      assert.ok(known.has(name) || others.test(name), `${page}: ${name}`)
})

test('the defaults on the operations page match the settings', () => {
  const [, table = ''] =
    /^\| Setting \| Default \|.*\n\|[-|]+\n((?:\|.*\n)+)/m.exec(read('docs/operations.md')) ?? []
  const rows = table.trim().split('\n')
  assert.ok(rows.length > 3, table)
  for (const row of rows) {
    const [, names = '', defaults = ''] = row.split('|')
    const values = defaults.replaceAll('`', '').split(',')
    for (const [at, [name]] of [...names.matchAll(/[A-Z_]+/g)].entries())
      assert.equal(values[at]?.trim(), known.get(name)?.default ?? '–', name)
  }
})
