import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const root = join(import.meta.dirname, '../..')
const self = 'test/architecture/citations.test.ts'

const sources = ['src', 'projections', 'tools', 'test', 'bench']
  .flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name)),
  )
  .filter((file) => file.endsWith('.ts') && file !== self)
  .map((file) => ({ file, text: readFileSync(join(root, file), 'utf8') }))

/** Comments break lines where they like. */
const joined = (text: string): string => text.replaceAll(/\s*\n\s*(?:\*|\/\/)\s*/g, ' ')

test('comments cite pages of this repository and existing headings', () => {
  const wrong: string[] = []
  for (const { file, text } of sources)
    for (const [cited, page = '', heading] of joined(text).matchAll(/(docs\/[\w/-]+\.md)(?:, "([^"]+)")?/g)) {
      // A page may be written after the code that names it; a decision and a heading are there already.
      if (heading === undefined && !page.startsWith('docs/decisions/')) continue
      const path = join(root, page)
      if (!existsSync(path)) wrong.push(`${file} cites ${page}, which does not exist`)
      else if (heading !== undefined && !readFileSync(path, 'utf8').includes(`# ${heading}\n`))
        wrong.push(`${file} cites ${cited}, which is no heading there`)
    }
  assert.deepEqual(wrong, [])
})

test('comments cite existing decisions', () => {
  const numbers = new Set(readdirSync(join(root, 'docs/decisions')).map((name) => name.slice(0, 4)))
  const wrong = sources.flatMap(({ file, text }) =>
    [...text.matchAll(/docs\/decisions\/(\d{4})/g)]
      .filter(([, number = '']) => !numbers.has(number))
      .map(([cited]) => `${file} cites ${cited}, which does not exist`),
  )
  assert.deepEqual(wrong, [])
})

test('no comment cites a document that readers of this repository cannot open', () => {
  const wrong = sources
    .filter(({ text }) => /\bspec\.md|\bdecisions\.md|\bdesign,? sections?\b/.test(joined(text)))
    .map(({ file }) => file)
  assert.deepEqual(wrong, [])
})
