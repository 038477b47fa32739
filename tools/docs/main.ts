import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { referencePages } from './pages.ts'

/** Writes the generated pages of the reference: `npm run docs`. An argument names another folder. */
const [folder = join(import.meta.dirname, '../../docs/reference/generated')] = process.argv.slice(2)

const pages = Object.entries(await referencePages())
for (const [name, text] of pages) {
  const path = join(folder, name)
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, text)
}
process.stdout.write(`${pages.length} pages in ${folder}\n`)
