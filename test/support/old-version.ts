import { execFile } from 'node:child_process'
import { mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { promisify } from 'node:util'
import { atEnd } from './cleanup.ts'

const run = promisify(execFile)
const root = join(import.meta.dirname, '../..')

/** Whether the history of this repository has a commit: a shallow clone has none but the newest. */
export const hasCommit = (commit: string): Promise<boolean> =>
  run('git', ['cat-file', '-e', `${commit}^{commit}`], { cwd: root }).then(
    () => true,
    () => false,
  )

/** The code of a commit in a separate folder, with the packages of today; removed with the test. */
export const oldVersion = async (t: TestContext, commit: string): Promise<string> => {
  const folder = await mkdtemp(join(tmpdir(), 'farebox-old-'))
  atEnd(t, () => rm(folder, { recursive: true, force: true }))
  const archive = join(folder, 'version.tar')
  await run('git', ['archive', '--output', archive, commit, 'src', 'projections', 'package.json'], {
    cwd: root,
  })
  await run('tar', ['-xf', archive, '-C', folder])
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  return folder
}
