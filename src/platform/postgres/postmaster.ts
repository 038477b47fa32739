import { type ChildProcess, execFile } from 'node:child_process'
import { once } from 'node:events'
import { readFile, readlink, rm } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import type { Launcher } from './binaries.ts'
import { StartRefused } from './errors.ts'

/** The last eight lines of a program's log, for a message. */
export const tailOf = async (logFile: string): Promise<string> =>
  (await readFile(logFile, 'utf8')).trim().split('\n').slice(-8).join('\n')

const run = promisify(execFile)

/** The process id in `postmaster.pid`; null if there is no such file. */
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

/**
 * Whether the process is the postmaster. A postmaster's working directory is its data directory, so a reused process
 * id is detected.
 */
const worksIn = async (pid: number, clusterDir: string): Promise<boolean> => {
  if (process.platform === 'linux')
    return (await readlink(`/proc/${pid}/cwd`).catch(() => null)) === clusterDir
  const { stdout } = await run('ps', ['-o', 'command=', '-p', String(pid)]).catch(() => ({ stdout: '' }))
  return stdout.includes(clusterDir)
}

const pauseMs = 20

const endsWithin = async (pid: number, timeoutMs: number): Promise<boolean> => {
  // Pauses alone are counted: on a busy machine all takes longer.
  for (let waitedMs = 0; exists(pid); waitedMs += pauseMs) {
    if (waitedMs >= timeoutMs) return false
    await sleep(pauseMs)
  }
  return true
}

/**
 * Removes the remains of a killed Farebox from a cluster that this process has locked. A Postgres that still runs is
 * stopped (a fast shutdown; the sessions of the dead process and their locks end with it). A `postmaster.pid` whose
 * process id now belongs to another program is removed, because Postgres would refuse to start.
 * @param clusterDir an absolute path without symbolic links
 * @throws StartRefused if that Postgres does not stop
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

/**
 * Throughput without a loss of durability: `fsync`, `synchronous_commit` and `full_page_writes` remain on.
 * Checkpoints are rare and spread, so that there are few full page images. A new file of the write-ahead log is not
 * filled with zeros first: that would block every commit for its duration, and the disk allocates the same space when
 * the file is written.
 */
export const defaultSettings: Readonly<Record<string, string>> = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  max_connections: '200',
  shared_buffers: '256MB',
  wal_buffers: '16MB',
  wal_init_zero: 'off',
  min_wal_size: '512MB',
  max_wal_size: '4GB',
  checkpoint_timeout: '15min',
  random_page_cost: '1.1',
  jit: 'off',
  timezone: 'UTC',
  log_timezone: 'UTC',
  log_checkpoints: 'off',
  log_min_messages: 'warning',
  password_encryption: 'scram-sha-256',
}

const freePort = async (): Promise<number> => {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo
  probe.close()
  await once(probe, 'close')
  return port
}

/** Line 8 of `postmaster.pid` is the state. Line 1 is the process id: a killed Postgres leaves its file behind. */
const isReady = async (cluster: string, pid: number | undefined): Promise<boolean> => {
  const text = await readFile(join(cluster, 'postmaster.pid'), 'utf8').catch(() => '')
  const lines = text.split('\n')
  return lines[0] === String(pid) && (lines[7]?.startsWith('ready') ?? false)
}

/** The longest time of a start: crash recovery replays at most `max_wal_size` of log. */
const startTimeoutMs = 300_000

/** Tries once to start the postmaster. Null if it ended, or was not ready in time. */
const startPostmaster = async (
  launcher: Launcher,
  cluster: string,
  settings: Readonly<Record<string, string>>,
  logFd: number,
): Promise<{ child: ChildProcess; port: number } | null> => {
  const port = await freePort()
  const flags = Object.entries({ ...settings, port: String(port) }).flatMap(([k, v]) => ['-c', `${k}=${v}`])
  const child = launcher.spawn(launcher.postgres, ['-D', cluster, ...flags], logFd)
  let failed = false
  child.once('error', () => {
    failed = true
  })
  for (let waitedMs = 0; !(await isReady(cluster, child.pid)); waitedMs += pauseMs) {
    if (failed || child.exitCode !== null || child.signalCode !== null) return null
    if (waitedMs >= startTimeoutMs) {
      child.kill('SIGQUIT')
      return null
    }
    await sleep(pauseMs)
  }
  return { child, port }
}

/**
 * Retries, because another process may take the chosen port first, and because backends of a killed postmaster need
 * some time to end.
 * @throws StartRefused after five attempts
 */
export const startWithRetries = async (
  launcher: Launcher,
  cluster: string,
  settings: Readonly<Record<string, string>>,
  logFile: string,
  logFd: number,
): Promise<{ child: ChildProcess; port: number }> => {
  for (let attempt = 1; attempt <= 5; attempt++) {
    const started = await startPostmaster(launcher, cluster, settings, logFd)
    if (started) return started
    await sleep(200 * attempt)
  }
  throw new StartRefused(
    `the embedded Postgres does not start; the end of ${logFile}:\n${await tailOf(logFile)}`,
  )
}

/** A fast shutdown. After a minute an immediate one; then the next start replays the log. */
export const stopChild = async (child: ChildProcess): Promise<void> => {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill('SIGINT')
  const killTimer = setTimeout(() => child.kill('SIGQUIT'), 60_000)
  await exited
  clearTimeout(killTimer)
}
