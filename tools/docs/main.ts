import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { readOptions } from '../dev/options.ts'
import { referencePages } from './pages.ts'

const usage = `Usage: npm run docs [-- FOLDER]

Writes the generated pages of the reference. Default: to docs/reference/generated.`
const defaultFolder = join(import.meta.dirname, '../../docs/reference/generated')
const [folder = defaultFolder] = readOptions(usage, {}, true).positionals

const pages = Object.entries(await referencePages())
for (const [name, text] of pages) {
  const path = join(folder, name)
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, text)
}
process.stdout.write(`${pages.length} pages in ${folder}\n`)
