import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { test } from 'node:test'

const generated = 'docs/reference/generated/'
const root = join(import.meta.dirname, '../..')
const read = (name: string): string => readFileSync(join(root, name), 'utf8')

test('every link from a page to a file of the project works in a fresh clone', () => {
  const pages = [
    'README.md',
    'CHANGELOG.md',
    'CONTRIBUTING.md',
    ...globSync(['docs/**/*.md', 'bench/**/*.md'], { cwd: root }).filter(
      (page) => !page.includes('node_modules') && !page.startsWith(generated),
    ),
  ]
  for (const page of pages)
    for (const [, target = ''] of read(page).matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g))
      if (!/^https?:/.test(target)) {
        const file = join(dirname(page), target)
        assert.ok(!file.startsWith(generated) && existsSync(join(root, file)), `${page}: ${target}`)
      }
})

test('every file that a page names exists and contains the function named with it', () => {
  const pages = [
    'README.md',
    'CONTRIBUTING.md',
    ...globSync('docs/{,finance/,guides/,operations/,reference/}*.md', { cwd: root }),
  ]
  // `x` stands for any name, as in `src/features/x/routes.ts`.
  const named = /`(?![^`]*\/x[/.])((?:src|projections|test|tools|bench|bin)\/[\w./-]+)`(?:\s`(\w+)`)?/g
  for (const page of pages)
    for (const [, file = '', name = ''] of read(page).matchAll(named)) {
      assert.ok(existsSync(join(root, file)), `${page}: ${file}`)
      if (name !== '') assert.match(read(file), new RegExp(`\\b${name}\\b`), `${page}: ${file}, ${name}`)
    }
})

test('the index of decisions lists each decision once, with its title', () => {
  const records = globSync('docs/decisions/0*.md', { cwd: root }).sort()
  const titles = records.map((record) => {
    const [, number, title] = /^# (\d{4})\. (.+)\n/.exec(read(record)) ?? []
    assert.equal(number, basename(record).slice(0, 4), record)
    return `- [${number}](${basename(record)}): ${title}`
  })
  const listed = read('docs/decisions/README.md').match(/^- .*$/gm) ?? []
  assert.deepEqual(listed.toSorted(), titles)
})
