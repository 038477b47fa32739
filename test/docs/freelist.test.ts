import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { settings } from '../../src/app/config.ts'
import { nextCheckDelayMs } from '../../src/features/free-list/endpoint-status.ts'
import { parseSources } from '../../src/features/free-list/sources.ts'
import { atEnd } from '../support/cleanup.ts'
import { surroundings } from '../support/farebox.ts'
import { usedDirectory } from '../support/used-folder.ts'

const run = promisify(execFile)
const root = join(import.meta.dirname, '../..')
const page = readFileSync(join(root, 'docs/operations/free-list.md'), 'utf8')

test('the free proxies page has a valid source file, commands that run, and existing settings', async (t) => {
  const [, file = ''] = /^```json\n([\s\S]*?)^```$/m.exec(page) ?? []
  assert.deepEqual(
    parseSources(file).map(({ id }) => id),
    ['example', 'own'],
  )
  const [, block = ''] = /^```sh\n([\s\S]*?)^```$/m.exec(page) ?? []
  const folder = await mkdtemp(join(tmpdir(), 'farebox-docs-'))
  atEnd(t, () => rm(folder, { recursive: true }))
  const script = block.replaceAll('npx farebox', `'${process.execPath}' '${join(root, 'src/cli.ts')}'`)
  const { stdout } = await run('bash', ['-euo', 'pipefail', '-c', script], {
    cwd: folder,
    env: { ...surroundings(), FAREBOX_DATA: await usedDirectory(t) },
  })
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
