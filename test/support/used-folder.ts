import { execFile } from 'node:child_process'
import { access, mkdir, rename, rm } from 'node:fs/promises'
import { after, type TestContext } from 'node:test'
import { promisify } from 'node:util'
import { dataDirectory, startFarebox } from './farebox.ts'
import { usedFolderOf } from './postgres-server.ts'
import { until } from './until.ts'

const run = promisify(execFile)

const ofRun = process.env.FAREBOX_TEST_RUN
const name = ofRun ?? String(process.pid)

after(async () => {
  if (ofRun === undefined) await rm(await usedFolderOf(name), { recursive: true, force: true })
})

/**
 * Two files may need it at the same time: the creator fills the folder, and renames it once it is complete.
 */
const ensureUsedFolder = async (t: TestContext): Promise<string> => {
  const folder = await usedFolderOf(name)
  const half = `${folder}.half`
  const exists = (): Promise<boolean> =>
    access(folder).then(
      () => true,
      () => false,
    )
  if (await exists()) return folder
  try {
    await mkdir(half)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    await until(exists, { timeoutMs: 120_000, what: 'the folder that another file makes' })
    return folder
  }
  if (await exists()) await rm(half, { recursive: true })
  else {
    await (await startFarebox(t, { FAREBOX_DATA: half })).stop()
    await rename(half, folder)
  }
  return folder
}

/**
 * A folder for FAREBOX_DATA in which a server ran and was stopped: it has keys, a Postgres and the demo. For tests that are
 * not about a first start, which takes three times as long.
 */
export const usedDirectory = async (t: TestContext): Promise<string> => {
  const [from, to] = await Promise.all([ensureUsedFolder(t), dataDirectory(t)])
  await run('cp', ['-a', `${from}/.`, to])
  return to
}
