import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { chmod, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { dataDirectory } from '../support/farebox.ts'
import { testApp } from '../support/test-app.ts'

const root = join(import.meta.dirname, '../..')

/** Names of files that a line with a command of ours writes: `--out x`, `--file x` of an export, `> x`. */
const writtenBy = (line: string): readonly string[] =>
  [...line.matchAll(/(?:--out|export --file|[^-=]>) ([\w$().%+-]+\.[a-z.]+)/g)].map(([, name = '']) =>
    name.replace('$(date +%F)', '2026-11-21'),
  )

const repository = spawnSync('git', ['rev-parse'], { cwd: root }).status === 0
const skip = !repository && 'this is not a git checkout: what git ignores was not looked at'

test('files that commands write under the names of the docs and of --help are ignored by git', {
  skip,
}, () => {
  const sources = [
    'README.md',
    ...globSync('docs/**/*.md', { cwd: root }),
    ...globSync('src/**/*{cli,command}*.ts', { cwd: root }),
  ]
  const names = sources
    .flatMap((file) => readFileSync(join(root, file), 'utf8').split('\n'))
    .filter((line) => /\bfarebox\b|openssl/.test(line))
    .flatMap(writtenBy)
  for (const name of ['log.jsonl', 'farebox.backup', 'seal-public.pem', 'new-seal.key', 'seals-2026-11.json'])
    assert.ok(names.includes(name), `${name} is one of ${names}`)
  const ignored = execFileSync('git', ['check-ignore', '--no-index', ...new Set(names)], {
    cwd: root,
    encoding: 'utf8',
  })
  assert.deepEqual(ignored.trim().split('\n').sort(), [...new Set(names)].sort())
})

test('files that commands write are readable by their owner only, also if they replace a file that all could read', async (t) => {
  const { cli } = await testApp(t, { own: true })
  const directory = await dataDirectory(t)
  const former = process.umask(0)
  t.after(() => process.umask(former))
  const modeOf = async (name: string): Promise<string> =>
    ((await stat(join(directory, name))).mode & 0o777).toString(8)
  await cli('ledger', 'seal')
  for (const [name, ...command] of [
    ['seals.json', 'ledger', 'seals', 'export', '--file'],
    ['log.jsonl', 'ledger', 'export', '--format', 'jsonl', '--out'],
    ['books.journal', 'ledger', 'export', '--format', 'hledger', '--out'],
    ['all.backup', 'backup', 'create', '--force', '--out'],
  ] as const) {
    if (name !== 'seals.json') {
      await writeFile(join(directory, name), 'old')
      await chmod(join(directory, name), 0o644)
    }
    const { code, err } = await cli(...command, join(directory, name))
    assert.equal(code, 0, err)
    assert.equal(await modeOf(name), '600', name)
  }
})
