import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { affectedTests } from './affected-tests.ts'
import { readOptions, refuse } from './options.ts'

const root = join(import.meta.dirname, '../..')
const usage = `Usage: npm run test:changed [-- --since REVISION]

Runs the tests that the changes since a revision affect. Default: the changes that are not committed.`
const { values } = readOptions(usage, { since: { type: 'string', default: 'HEAD' } })

const git = (...args: readonly string[]): readonly string[] => {
  const { status, stdout, stderr, error } = spawnSync('git', args, { cwd: root, encoding: 'utf8' })
  if (status !== 0) refuse(error?.message ?? stderr.replace(/^fatal: /, ''))
  return stdout.split('\n').filter(Boolean)
}

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
