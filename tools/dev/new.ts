import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { kinds } from './new-kinds.ts'
import { readOptions, refuse } from './options.ts'

/**
 * `npm run new -- KIND FOLDER/NAME` creates files from `tools/dev/templates` and `test/tools/dev/templates`, and prints
 * the lines to add to existing files. Templates say `sample-area` for FOLDER and `sample-thing` for NAME.
 */
const root = join(import.meta.dirname, '../..')
const exists = (path: string): boolean => existsSync(join(root, path))

const usage = `Usage: npm run new -- KIND FOLDER/NAME

Creates the files of a kind with a test, and prints the lines to add to existing files. FOLDER is a folder of src/domain
and src/features. FOLDER and NAME are in lower case, with dashes between words.

${Object.entries(kinds)
  .map(([kind, { about }]) => `  ${`npm run new -- ${kind} accounts/nickname`.padEnd(46)}${about}\n`)
  .join('')}`

const { positionals } = readOptions(usage, {}, true)
const [kindName = '', ...paths] = positionals
const path = paths.join(' ')
const kind =
  kinds[kindName] ??
  refuse(`KIND must be one of ${Object.keys(kinds).join(', ')}, not "${kindName}"\n\n${usage}`)
const [, folder = '', name = ''] =
  /^([a-z][a-z0-9]*(?:-[a-z0-9]+)*)\/([a-z][a-z0-9]*(?:-[a-z0-9]+)*)$/.exec(path) ??
  refuse(`FOLDER/NAME must be in lower case, such as accounts/nickname, not "${path}"\n\n${usage}`)

const capital = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1)
const words = name.split('-')
const pascal = words.map(capital).join('')
/** What replaces the placeholders of templates. */
const replacements: Readonly<Record<string, string>> = {
  'sample-area': folder,
  'sample-thing': name,
  sampleThing: pascal.slice(0, 1).toLowerCase() + pascal.slice(1),
  SampleThing: pascal,
  sample_thing: words.join('_'),
  SAMPLE_THING: words.join('_').toUpperCase(),
  // Kinds of streams have no dash.
  samplething: words.join(''),
  'sample thing': words.join(' '),
  'Sample thing': capital(words.join(' ')),
}
const placeholder = /sample-area|sample[-_ ]?thing|sampleThing|Sample ?[tT]hing|SAMPLE_THING/g
const withNames = (text: string): string =>
  text.replaceAll(placeholder, (found) => replacements[found] ?? found)

const templateOf = (file: string): string => {
  const template = file.replace(/^(?:test\/)?/, (test) => `${test}tools/dev/templates/`)
  return exists(template) ? template : template.replace('.test.ts', '.test-template.ts')
}
/** The path that a template gets. Other paths do not change. */
const createdPath = (template: string): string =>
  withNames(template.replace('tools/dev/templates/', '').replace('.test-template.ts', '.test.ts'))

const imported = new Set<string>()
const create = (template: string): string => {
  const file = createdPath(template)
  const text = readFileSync(join(root, template), 'utf8')
  const moved = text.replaceAll(/(?<=')\.{1,2}\/[\w./-]+\.ts(?=')/g, (specifier) => {
    const target = createdPath(join(dirname(template), specifier))
    imported.add(target)
    const from = relative(dirname(file), target)
    return from.startsWith('.') ? from : `./${from}`
  })
  mkdirSync(dirname(join(root, file)), { recursive: true })
  writeFileSync(join(root, file), withNames(moved), { flag: 'wx' })
  return file
}

const newFolders = ['src/domain/', 'src/features/'].filter(
  (parent) => kind.files.some((file) => file.startsWith(parent)) && !exists(parent + folder),
)
// Routes, pages and commands of one name share its service.
const files = kind.files.filter((file) => !file.endsWith('-service.ts') || !exists(withNames(file)))
for (const file of files.map(withNames))
  if (exists(file)) refuse(`${file} exists, so nothing was created; choose another name or edit this file`)
const created = files.map((file) => create(templateOf(file)))
// Line breaks depend on the length of the name, and the order of imports on its letters.
execFileSync(
  process.execPath,
  [join(root, 'node_modules/.bin/biome'), 'check', '--write', '--linter-enabled=false', ...created],
  { cwd: root, stdio: ['ignore', 'ignore', 'inherit'] },
)

const missing = Object.entries(kinds).flatMap(([other, { files }]) =>
  files
    .map(withNames)
    .filter((file) => imported.has(file) && !exists(file))
    .map((file) => `${file} does not exist yet: npm run new -- ${other} ${path}`),
)
process.stdout.write(`Created:
${created.map((file) => `  ${file}\n`).join('')}
Next:
${[
  ...missing,
  ...newFolders.map(
    (parent) => `.dependency-cruiser.mjs: list ${parent}${folder} after the folders that it imports`,
  ),
  ...kind.steps.map(([file, place, ...lines]) =>
    [`${file}, ${place}:`, ...lines].map(withNames).join('\n    '),
  ),
  `npm test -- ${created.filter((file) => file.startsWith('test/')).join(' ')}`,
]
  .map((step) => `  ${step}\n`)
  .join('')}`)
