import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'

const root = join(import.meta.dirname, '../../..')
const { scripts } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))

describe('Commands for developers', () => {
  for (const name of ['lint', 'typecheck'])
    test(`report every problem: all parts of ${name} run, and each failure is the exit code`, async (t) => {
      const folder = await mkdtemp(join(tmpdir(), 'farebox-scripts-'))
      t.after(() => rm(folder, { recursive: true }))
      const programs = [...new Set([...scripts[name].matchAll(/(?:^|; )([a-z]+) /g)].map(([, each]) => each))]
      for (const program of programs) {
        const file = join(folder, program)
        await writeFile(file, `#!/bin/sh\necho "$0 $*"\ncase " $FAILING " in *" $* "*) exit 3 ;; esac\n`)
        await chmod(file, 0o755)
      }
      const run = (failing: string) => {
        const env = { PATH: `${folder}:${process.env.PATH}`, FAILING: failing }
        const { status, stdout } = spawnSync('sh', ['-c', scripts[name]], { env, encoding: 'utf8' })
        return {
          status,
          parts: stdout
            .trim()
            .split('\n')
            .map((line) => line.replace(/^\S+ /, '')),
        }
      }
      const { status, parts } = run('')
      assert.deepEqual([status, parts.length], [0, 2])
      for (const part of parts) assert.deepEqual(run(part), { status: 3, parts })
    })

  for (const [file, wrong] of [
    ['tools/dev/test-changed.ts', ['--colour']],
    ['tools/dev/test-changed.ts', ['--since', 'no-such-revision']],
    ['tools/dev/new.ts', ['--colour']],
    ['test/mutations.ts', ['--colour']],
  ] as const)
    test(`print their usage, and a message for wrong options: ${file} ${wrong.join(' ')}`, () => {
      const run = (...args: readonly string[]) =>
        spawnSync(process.execPath, [join(root, file), ...args], { cwd: root, encoding: 'utf8' })
      const help = run('--help')
      assert.deepEqual([help.status, help.stderr], [0, ''])
      assert.match(help.stdout, /^Usage: npm run /)
      const refused = run(...wrong)
      assert.deepEqual([refused.status, refused.stdout], [2, ''])
      assert.match(refused.stderr, /^error: /)
      assert.doesNotMatch(refused.stderr, /\n {4}at /)
    })
})
