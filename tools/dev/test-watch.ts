import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { watch } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { affectedTests } from './affected-tests.ts'

/**
 * `npm run test:watch` runs the tests that a saved file affects: first the nearest by imports, then the others. A file
 * counts as changed until its tests pass.
 */
const root = join(import.meta.dirname, '../..')
/** These tests run first. */
const nearest = 5
const changed = new Set<string>()
let change = Promise.withResolvers<void>()
let running: ChildProcess | null = null

const passes = async (tests: readonly string[]): Promise<boolean> => {
  if (tests.length === 0) return true
  running = spawn(process.execPath, [join(root, 'test/run.ts'), ...tests], { cwd: root, stdio: 'inherit' })
  const [code] = await once(running, 'exit')
  running = null
  return code === 0
}

for (const folder of ['src', 'projections', 'tools', 'test', 'docs'])
  watch(join(root, folder), { recursive: true }, (_, name) => {
    if (name === null || !/\.(?:ts|mjs|json|md)$/.test(name)) return
    changed.add(`${folder}/${name}`)
    running?.kill('SIGTERM')
    change.resolve()
  })

for (;;) {
  process.stdout.write('Waiting for changes. Ctrl-C ends.\n')
  await change.promise
  // An editor saves a file in several steps.
  await delay(50)
  change = Promise.withResolvers()
  const files = [...changed]
  const tests = affectedTests(files)
  process.stdout.write(`\n${files.join(', ')}: ${tests.length} test files\n`)
  if ((await passes(tests.slice(0, nearest))) && (await passes(tests.slice(nearest))))
    for (const file of files) changed.delete(file)
}
