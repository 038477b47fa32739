import type { ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chown, mkdir, open, readFile, realpath, rename, rm, stat, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { findLauncher, type Launcher } from './binaries.ts'
import { type DataLock, lockData } from './data-lock.ts'
import { stopOrphan } from './orphan.ts'

export type EmbeddedPostgres = {
  /** Address with password; only this machine can reach it. */
  readonly url: string
  readonly pid: number
  /** Settles when Postgres ends by itself; never after `stop`. */
  readonly failed: Promise<Error>
  /** A fast shutdown: sessions end, everything committed is on disk, the data directory is free again. */
  stop(): Promise<void>
}

export type EmbeddedOptions = {
  /** The cluster lies in `postgres/` here, its log in `postgres.log`, its password in `postgres.password`. */
  readonly dataDir: string
  /** What others are told that this process is; default `server`. */
  readonly role?: string
  /** More settings of Postgres, which win over ours. */
  readonly settings?: Readonly<Record<string, string>>
}

/**
 * Throughput without a loss of durability: `fsync`, `synchronous_commit` and `full_page_writes` stay on. Checkpoints
 * are rare and spread, so that full page images stay few.
 */
const defaultSettings: Readonly<Record<string, string>> = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  max_connections: '200',
  shared_buffers: '256MB',
  wal_buffers: '16MB',
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

/** A small file that holds a secret, made by the first start and kept. */
const keptSecret = async (path: string): Promise<string> => {
  const kept = await readFile(path, 'utf8').catch(() => '')
  if (kept.trim() !== '') return kept.trim()
  const made = randomBytes(24).toString('hex')
  await writeFile(path, `${made}\n`, { mode: 0o600 })
  return made
}

const own = async (launcher: Launcher, path: string): Promise<void> => {
  if (launcher.owner) await chown(path, launcher.owner.uid, launcher.owner.gid)
}

const tailOf = async (logFile: string): Promise<string> =>
  (await readFile(logFile, 'utf8')).trim().split('\n').slice(-8).join('\n')

/** Makes the cluster under another name first, so that a start that was killed in between leaves none half made. */
const createCluster = async (
  launcher: Launcher,
  paths: { cluster: string; logFile: string; passwordFile: string; dataDir: string },
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
  if (code !== 0) throw new Error(`initdb failed:\n${await tailOf(paths.logFile)}`)
  await rename(half, paths.cluster)
}

const freePort = async (): Promise<number> => {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo
  probe.close()
  await once(probe, 'close')
  return port
}

/** Line 8 of `postmaster.pid` tells the state; line 1 whose file it is, for a killed Postgres left its own behind. */
const isReady = async (cluster: string, pid: number | undefined): Promise<boolean> => {
  const text = await readFile(join(cluster, 'postmaster.pid'), 'utf8').catch(() => '')
  const lines = text.split('\n')
  return lines[0] === String(pid) && (lines[7]?.startsWith('ready') ?? false)
}

/** How long a start may take: crash recovery replays at most `max_wal_size` of log. */
const startTimeoutMs = 300_000

/** One try to start the postmaster; null when it ended before it was ready. */
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
  const deadlineMs = performance.now() + startTimeoutMs
  while (!(await isReady(cluster, child.pid))) {
    if (failed || child.exitCode !== null || child.signalCode !== null) return null
    if (performance.now() > deadlineMs) {
      child.kill('SIGQUIT')
      return null
    }
    await sleep(10)
  }
  return { child, port }
}

/** A port may be taken between its choice and its use, and backends of a postmaster that was killed take a moment to end. */
const startWithRetries = async (
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
  throw new Error(`the embedded Postgres does not start; the end of ${logFile}:\n${await tailOf(logFile)}`)
}

const createDatabase = async (serverUrl: string): Promise<void> => {
  const client = new pg.Client({ connectionString: `${serverUrl}/postgres` })
  await client.connect()
  try {
    const { rowCount } = await client.query("select 1 from pg_database where datname = 'farebox'")
    if (rowCount === 0) await client.query('create database farebox')
  } finally {
    await client.end()
  }
}

const stopChild = async (child: ChildProcess): Promise<void> => {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill('SIGINT')
  const late = setTimeout(() => child.kill('SIGQUIT'), 60_000)
  await exited
  clearTimeout(late)
}

const isAbsent = async (path: string): Promise<boolean> =>
  stat(path).then(
    () => false,
    () => true,
  )

/**
 * Starts a Postgres of our own on data in `dataDir`, made at the first start. What a killed run left behind, up to a
 * Postgres that still runs, is cleared first.
 * @throws DataInUse when another process uses the directory
 */
export const startEmbeddedPostgres = async (options: EmbeddedOptions): Promise<EmbeddedPostgres> => {
  await mkdir(options.dataDir, { recursive: true })
  const dataDir = await realpath(options.dataDir)
  const lock = await lockData(dataDir, options.role ?? 'server')
  try {
    return await startLocked(dataDir, lock, options.settings ?? {})
  } catch (error) {
    await lock.release()
    throw error
  }
}

const startLocked = async (
  dataDir: string,
  lock: DataLock,
  settings: Readonly<Record<string, string>>,
): Promise<EmbeddedPostgres> => {
  const paths = {
    dataDir,
    cluster: join(dataDir, 'postgres'),
    logFile: join(dataDir, 'postgres.log'),
    passwordFile: join(dataDir, 'postgres.password'),
  }
  const launcher = await findLauncher(dataDir)
  await stopOrphan(paths.cluster)
  const password = await keptSecret(paths.passwordFile)
  await rename(paths.logFile, `${paths.logFile}.1`).catch(() => undefined)
  const log = await open(paths.logFile, 'a', 0o600)
  try {
    if (await isAbsent(paths.cluster)) await createCluster(launcher, paths, log.fd)
    const all = { ...defaultSettings, ...settings }
    const { child, port } = await startWithRetries(launcher, paths.cluster, all, paths.logFile, log.fd)
    const serverUrl = `postgres://farebox:${password}@127.0.0.1:${port}`
    try {
      await createDatabase(serverUrl)
      await lock.publish(`${serverUrl}/farebox`)
    } catch (error) {
      await stopChild(child)
      throw error
    }
    return running(child, `${serverUrl}/farebox`, lock)
  } finally {
    await log.close()
  }
}

const running = (child: ChildProcess, url: string, lock: DataLock): EmbeddedPostgres => {
  let stopping: Promise<void> | null = null
  // The process may end without `stop` (an exception that nobody caught): Postgres then ends with it.
  const endWithProcess = (): void => {
    child.kill('SIGINT')
  }
  process.once('exit', endWithProcess)
  const failed = new Promise<Error>((resolve) => {
    child.once('exit', (code, signal) => {
      process.off('exit', endWithProcess)
      if (!stopping)
        resolve(new Error(`the embedded Postgres ended by itself (${signal ?? `exit code ${code}`})`))
    })
  })
  return {
    url,
    pid: child.pid!,
    failed,
    stop: () => {
      stopping ??= stopChild(child).then(() => lock.release())
      return stopping
    },
  }
}
