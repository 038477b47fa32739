import { execFile } from 'node:child_process'
import { readFile, readlink, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { StartRefused } from './start-refused.ts'

const run = promisify(execFile)

/** The process id in `postmaster.pid`, or null without that file. */
export const postmasterPid = async (clusterDir: string): Promise<number | null> => {
  const text = await readFile(join(clusterDir, 'postmaster.pid'), 'utf8').catch(() => '')
  const pid = Number(text.split('\n')[0])
  return Number.isSafeInteger(pid) && pid > 0 ? pid : null
}

const exists = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** A postmaster works in its data directory, so a reused process id is told apart. */
const worksIn = async (pid: number, clusterDir: string): Promise<boolean> => {
  if (process.platform === 'linux')
    return (await readlink(`/proc/${pid}/cwd`).catch(() => null)) === clusterDir
  const { stdout } = await run('ps', ['-o', 'command=', '-p', String(pid)]).catch(() => ({ stdout: '' }))
  return stdout.includes(clusterDir)
}

const endsWithin = async (pid: number, timeoutMs: number): Promise<boolean> => {
  const deadlineMs = performance.now() + timeoutMs
  while (exists(pid)) {
    if (performance.now() > deadlineMs) return false
    await sleep(20)
  }
  return true
}

/**
 * Clears what a killed Farebox left in a cluster that this process holds the lock of: its Postgres, which runs on, is
 * stopped (a fast shutdown; sessions of the dead process and their locks end with it), and a `postmaster.pid` whose
 * process id belongs to another program by now is removed, for Postgres itself would refuse to start over it.
 * `clusterDir` is an absolute path without symbolic links.
 */
export const stopOrphan = async (clusterDir: string): Promise<void> => {
  const pid = await postmasterPid(clusterDir)
  if (pid === null || !exists(pid)) return
  if (!(await worksIn(pid, clusterDir))) {
    await rm(join(clusterDir, 'postmaster.pid'), { force: true })
    return
  }
  process.kill(pid, 'SIGINT')
  if (await endsWithin(pid, 30_000)) return
  // Immediate shutdown: the next start replays the write-ahead log.
  process.kill(pid, 'SIGQUIT')
  if (await endsWithin(pid, 10_000)) return
  throw new StartRefused(
    `the Postgres of a former run (process ${pid}) does not stop; end it and start again`,
  )
}
