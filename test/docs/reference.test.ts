import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { settingsHelp } from '../../src/app/settings-command.ts'
import { placedFieldsOf, sampleOf } from '../../src/domain/scrapers/sample.ts'
import { rowName } from '../../src/domain/scrapers/scraper.ts'
import { scrapers } from '../../src/domain/scrapers/scraper-table.ts'
import { errorCodes, errorEntry } from '../../src/platform/http/errors.ts'
import { referencePages } from '../../tools/docs/pages.ts'

const root = join(import.meta.dirname, '../..')
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const pages = await referencePages()

test('npm run docs writes every generated page, into a folder that git ignores', async (t) => {
  assert.equal(manifest.scripts.docs, 'bin/run-node tools/docs/main.ts')
  const folder = await mkdtemp(join(tmpdir(), 'farebox-docs-'))
  t.after(() => rm(folder, { recursive: true }))
  await promisify(execFile)(process.execPath, [join(root, 'tools/docs/main.ts'), folder])
  const written = globSync('**/*.{md,json}', { cwd: folder }).sort()
  assert.deepEqual(written, Object.keys(pages).sort())
  for (const name of written) assert.equal(readFileSync(join(folder, name), 'utf8'), pages[name])
  assert.match(readFileSync(join(root, '.gitignore'), 'utf8'), /^docs\/reference\/generated\/$/m)
})

test('every error code has a page with its status, meaning, remedy and an example', () => {
  for (const code of errorCodes) {
    const page = pages[`errors/${code}.md`] ?? assert.fail(code)
    const { status, meaning, causes = [], remedy } = errorEntry(code)
    for (const text of [`Status ${status}.`, meaning, ...causes, remedy]) assert.ok(page.includes(text), code)
    const [, json = ''] = /^```json\n([\s\S]*?)^```$/m.exec(page) ?? []
    assert.equal(JSON.parse(json).code, code)
    for (const text of [meaning, ...causes, remedy]) assert.match(text, /\.$/, `${code}: ${text}`)
  }
})

test('the generated pages have every setting, command and scraper', () => {
  for (const { name } of settingsHelp()) assert.ok(pages['settings.md']?.includes(`| \`${name}\` |`), name)
  for (const row of scrapers) {
    assert.ok(pages['scrapers.md']?.includes(`| \`${rowName(row)}\` |`))
    const [, answer = ''] = pages[`scrapers/${row.platform}.md`]?.split(`\n## ${rowName(row)}\n`) ?? []
    for (const { path } of placedFieldsOf(row)) assert.ok(answer.includes(`| \`${path}\` |`), path)
    const [, json = ''] = /^```json\n([\s\S]*?)^```$/m.exec(answer) ?? []
    assert.deepEqual(JSON.parse(json).data, sampleOf(row))
  }
  const commands = [...(pages['commands.md'] ?? '').matchAll(/^## (farebox.*)$/gm)].map(([, name]) => name)
  assert.ok(commands.length > 100, `${commands.length} commands`)
  for (const name of ['farebox orders refund', 'farebox ledger seals export', 'farebox demo history'])
    assert.ok(commands.includes(name), name)
})

test('every link of a generated page leads to a generated page', () => {
  for (const [name, page] of Object.entries(pages))
    for (const [, target = ''] of page.matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g))
      assert.ok(join(dirname(name), target) in pages, `${name}: ${target}`)
})
