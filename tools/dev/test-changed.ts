import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { affectedTests } from './affected-tests.ts'

/** `npm run test:changed [-- --since REVISION]` runs the tests that the changes since a revision affect. */
const root = join(import.meta.dirname, '../..')
const { values } = parseArgs({ options: { since: { type: 'string', default: 'HEAD' } } })

const git = (...args: readonly string[]): readonly string[] =>
  execFileSync('git', args, { cwd: root, encoding: 'utf8' }).split('\n').filter(Boolean)

const changed = [
  ...git('diff', '--name-only', values.since, '--'),
  ...git('ls-files', '--others', '--exclude-standard'),
]
const tests = affectedTests(changed)
process.stdout.write(
  `${changed.length} changed files since ${values.since} affect ${tests.length} test files\n`,
)
if (tests.length > 0) {
  const run = spawn(process.execPath, [join(root, 'test/run.ts'), ...tests], { cwd: root, stdio: 'inherit' })
  const [code] = await once(run, 'exit')
  process.exitCode = code ?? 1
}
