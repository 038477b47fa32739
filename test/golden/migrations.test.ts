import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { allMigrations } from '../../src/app/migrations.ts'
import { checksumOf } from '../../src/platform/postgres/migrate.ts'

const file = join(import.meta.dirname, 'migrations.json')

/**
 * A database refuses to start when a text that landed in it is another one by now, be it by a comment. The file has the
 * checksum of each; `FAREBOX_GOLDEN=fold npm test -- test/golden` adds those that are new.
 */
test('released migrations keep their texts, and new ones are recorded', () => {
  const pinned = JSON.parse(readFileSync(file, 'utf8')) as Record<string, string>
  const now = Object.fromEntries(
    Object.keys(allMigrations)
      .sort()
      .map((name) => [name, checksumOf(allMigrations[name] ?? '')]),
  )
  if (process.env.FAREBOX_GOLDEN === 'fold') {
    writeFileSync(file, `${JSON.stringify({ ...now, ...pinned }, Object.keys(now), 2)}\n`)
    return
  }
  assert.deepEqual(now, pinned)
})
