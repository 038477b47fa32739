import { once } from 'node:events'
import { chown, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Launcher } from './binaries.ts'
import { tailOf } from './log-tail.ts'
import { StartRefused } from './start-refused.ts'

/** Where the parts of an embedded Postgres lie. */
export type ClusterPaths = {
  readonly dataDir: string
  readonly cluster: string
  readonly logFile: string
  readonly passwordFile: string
}

const own = async (launcher: Launcher, path: string): Promise<void> => {
  if (launcher.owner) await chown(path, launcher.owner.uid, launcher.owner.gid)
}

/** Makes the cluster under another name first, so that a start that was killed in between leaves none half made. */
export const createCluster = async (
  launcher: Launcher,
  paths: ClusterPaths,
  logFd: number,
): Promise<void> => {
  const half = `${paths.cluster}.new`
  const passwordCopy = join(paths.dataDir, 'postgres.initdb')
  await rm(half, { recursive: true, force: true })
  await mkdir(half, { mode: 0o700 })
  await own(launcher, half)
  await writeFile(passwordCopy, await readFile(paths.passwordFile), { mode: 0o600 })
  await own(launcher, passwordCopy)
  const child = launcher.spawn(
    launcher.initdb,
    [
      `--pgdata=${half}`,
      `--pwfile=${passwordCopy}`,
      '--username=farebox',
      '--auth=scram-sha-256',
      '--encoding=UTF8',
      '--locale-provider=builtin',
      '--locale=C.UTF-8',
      '--lc-messages=C',
    ],
    logFd,
  )
  const [code] = await once(child, 'exit')
  await rm(passwordCopy, { force: true })
  if (code !== 0) throw new StartRefused(`initdb failed:\n${await tailOf(paths.logFile)}`)
  await rename(half, paths.cluster)
}
