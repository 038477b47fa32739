import assert from 'node:assert/strict'
import { test } from 'node:test'
import { settings } from '../../src/app/config.ts'
import { nextCheckDelayMs } from '../../src/features/free-list/endpoint-status.ts'
import { parseSources } from '../../src/features/free-list/sources.ts'
import { dataDirectory } from '../support/farebox.ts'
import { blocksOf, pageOf, pageShell } from '../support/page-shell.ts'
import { seededDatabase } from '../support/seeded.ts'

const page = pageOf('docs/operations/free-list.md')

test('the free proxies page has a valid source file, commands that run, and existing settings', async (t) => {
  const [, file = ''] = /^```json\n([\s\S]*?)^```$/m.exec(page) ?? []
  assert.deepEqual(
    parseSources(file).map(({ id }) => id),
    ['example', 'own'],
  )
  const [block = ''] = blocksOf(page)
  const cwd = await dataDirectory(t)
  const shell = await pageShell(t, { env: await seededDatabase(t, cwd), cwd })
  const { stdout } = await shell(block)
  assert.match(stdout, /2 candidates: 2 new/)
  assert.match(stdout, /untested 2/)
  for (const [name] of page.matchAll(/FAREBOX_[A-Z_]+/g)) assert.ok(name in settings, name)
})

test('the free proxies page says when an unreachable source is polled again', () => {
  assert.match(page, /after 2 minutes, then 4, 8/)
  assert.match(page, /after 10 minutes, then 20, 40/)
  const minutes = (state: 'not_answering' | 'never_answered', failures: number) =>
    nextCheckDelayMs({ state, failures }, 0.5) / 60_000
  assert.deepEqual(
    [1, 2, 3].map((n) => minutes('not_answering', n)),
    [2, 4, 8],
  )
  assert.deepEqual(
    [1, 2, 3].map((n) => minutes('never_answered', n)),
    [10, 20, 40],
  )
})
