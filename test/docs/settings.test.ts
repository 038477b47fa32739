import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { settingsHelp } from '../../src/app/settings-command.ts'

const root = join(import.meta.dirname, '../..')
const read = (name: string): string => readFileSync(join(root, name), 'utf8')
const known = new Set(settingsHelp().map(({ name }) => name))

/** Of the tests, and of the receiver in docs/webhooks.md: no settings of the service. */
const others = /^FAREBOX_(TEST_|(URL|KEY)$)/

test('every setting that a page or the container names exists', () => {
  const pages = [
    'README.md',
    'docker-compose.yml',
    'Dockerfile',
    ...globSync('docs/{,*/}*.md', { cwd: root }),
  ].filter((page) => !page.startsWith('docs/decisions/'))
  for (const page of pages)
    for (const [name] of read(page).matchAll(/\bFAREBOX_[A-Z_]*[A-Z]\b/g))
      assert.ok(known.has(name) || others.test(name), `${page}: ${name}`)
})
