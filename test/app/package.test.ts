import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const root = join(import.meta.dirname, '../..')
const read = (file: string): string => readFileSync(join(root, file), 'utf8')

test('a package has what an image has, with the exact versions of its dependencies', () => {
  const { files, scripts } = JSON.parse(read('package.json')) as {
    files: readonly string[]
    scripts: Readonly<Record<string, string>>
  }
  const copied = [...read('Dockerfile').matchAll(/^COPY ([\w.]+) \.\/\1$/gm)].map(([, folder]) => folder)
  assert.ok(copied.length > 3)
  assert.deepEqual(files, ['CHANGELOG.md', 'npm-shrinkwrap.json', ...copied].sort())
  // npm leaves package-lock.json out, and `npm ci` needs a list of versions.
  assert.match(scripts.prepack ?? '', /package-lock\.json npm-shrinkwrap\.json$/)
  assert.ok(!existsSync(join(root, 'npm-shrinkwrap.json')), 'a package is being made')
})
