import type { ChildProcess } from 'node:child_process'
import { createHmac, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chown, mkdir, open, readFile, realpath, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import { findLauncher, type Launcher } from './binaries.ts'
import { type DataLock, lockData, lockFile, makeFolder } from './data-lock.ts'
import { readStartFile, StartRefused } from './errors.ts'
import { pathOptions } from './pool.ts'
import { defaultSettings, startWithRetries, stopChild, stopOrphan, tailOf } from './postmaster.ts'
import { notInstalledIn } from './wait-for-database.ts'

/** The paths of an embedded Postgres. */
export type ClusterPaths = {
  readonly dataDir: string
  readonly cluster: string
  readonly logFile: string
  readonly passwordFile: string
}

const changeOwner = async (launcher: Launcher, path: string): Promise<void> => {
  if (launcher.owner) await chown(path, launcher.owner.uid, launcher.owner.gid)
}

/** Why initdb failed, from its output. */
export const initdbProblem = (output: string): string => {
  const uid = /could not look up effective user ID (\d+)/.exec(output)?.[1]
  return uid === undefined
    ? `initdb failed:\n${output}`
    : `the user ${uid} has no name on this machine, and the embedded Postgres is created only by a user with one: add it to /etc/passwd, or set DATABASE_URL`
}

/** Creates the cluster under another name first, so that a killed start leaves no incomplete cluster. */
export const createCluster = async (
  launcher: Launcher,
  paths: ClusterPaths,
  logFd: number,
): Promise<void> => {
  const half = `${paths.cluster}.new`
  const passwordCopy = join(paths.dataDir, 'postgres.initdb')
  await rm(half, { recursive: true, force: true })
  await mkdir(half, { mode: 0o700 })
  await changeOwner(launcher, half)
  await writeFile(passwordCopy, await readFile(paths.passwordFile), { mode: 0o600 })
  await changeOwner(launcher, passwordCopy)
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
  if (code !== 0) throw new StartRefused(initdbProblem(await tailOf(paths.logFile)))
  await rename(half, paths.cluster)
}

export type EmbeddedPostgres = {
  /** The address with the password of the service's role. Only this machine can reach it. */
  readonly url: string
  /** The same database as its owner, who has all permissions on this server. */
  readonly ownerUrl: string
  /** The same database with the auditor's role. */
  readonly auditorUrl: string
  readonly pid: number
  /** Resolves when Postgres ends by itself; never after `stop`. */
  readonly failed: Promise<Error>
  /** A fast shutdown: sessions end, everything committed is on disk, the data directory is unlocked. */
  stop(): Promise<void>
}

export type EmbeddedOptions = {
  /** The cluster is in `postgres/` here, its log in `postgres.log`, its password in `postgres.password`. */
  readonly dataDir: string
  /** The role of this process for other processes; default `server`. */
  readonly role?: string
  /** False: a directory without a cluster is rejected, nothing is written. Default true: a cluster is created. */
  readonly makes?: boolean
  /** More settings of Postgres, which override the defaults of Farebox. */
  readonly settings?: Readonly<Record<string, string>>
}

const passwordFile = 'postgres.password'

const isAbsent = async (path: string): Promise<boolean> =>
  stat(path).then(
    () => false,
    () => true,
  )

/**
 * The password of the cluster: a small file that the first start creates.
 * @throws StartRefused if the file is lost: a new password would not fit the cluster
 */
const storedPassword = async (path: string, cluster: string): Promise<string> => {
  const fileText = await readStartFile(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return ''
    throw error
  })
  if (fileText.trim() !== '') return fileText.trim()
  if (!(await isAbsent(cluster)))
    throw new StartRefused(
      `${path} is missing or empty, and the database in ${cluster} was made with the password in it. Put the file back from a backup of this directory.`,
    )
  const newPassword = randomBytes(24).toString('hex')
  await writeFile(path, `${newPassword}\n`, { mode: 0o600 })
  return newPassword
}

/** The role of the service and that of the auditor. The owner has the name that the cluster was created with. */
const service = 'farebox_service'
const auditor = 'farebox_auditor'

/** Derived from the owner's password, so that it need not be stored. The owner's cannot be derived from it. */
const rolePassword = (ownerPassword: string, role: string): string =>
  createHmac('sha256', ownerPassword).update(role).digest('hex')

/** Creates the database, and the roles, which a data directory of an earlier version does not have. */
const createDatabase = async (serverUrl: string, ownerPassword: string): Promise<void> => {
  const client = new pg.Client({
    connectionString: `${serverUrl}/postgres`,
    options: pathOptions,
  })
  client.on('error', () => undefined) // the query that waits gets it
  await client.connect()
  try {
    const { rows } = await client.query<{ database: boolean; roles: readonly string[] }>(
      `select exists (select from pg_database where datname = 'farebox') as database,
              array(select rolname::text from pg_roles) as roles`,
    )
    const [{ database, roles }] = rows as [(typeof rows)[0]]
    if (!database) await client.query('create database farebox')
    for (const role of [service, auditor]) {
      if (!roles.includes(role)) await client.query(`create role ${role}`)
      const password = pg.escapeLiteral(rolePassword(ownerPassword, role))
      await client.query(`alter role ${role} login password ${password}`)
    }
    await client.query(`grant ${service} to ${auditor}`)
  } finally {
    await client.end()
  }
}

/**
 * The addresses of the owner and the auditor of a running embedded Postgres. The published address has the service's
 * role. Null if this user may not read the password.
 */
export const roleUrlsOf = async (
  dataDir: string,
  url: string,
): Promise<Pick<EmbeddedPostgres, 'ownerUrl' | 'auditorUrl'> | null> => {
  const password = (await readFile(join(dataDir, passwordFile), 'utf8').catch(() => '')).trim()
  if (password === '') return null
  const as = (username: string, password: string): string =>
    Object.assign(new URL(url), { username, password }).toString()
  return { ownerUrl: as('farebox', password), auditorUrl: as(auditor, rolePassword(password, auditor)) }
}

/**
 * Starts the embedded Postgres on data in `dataDir`, which the first start creates. First it removes the remains of a
 * killed run, including a Postgres that still runs.
 * @throws DataInUse if another process uses the directory; FareboxNotInstalled
 */
export const startEmbeddedPostgres = async (options: EmbeddedOptions): Promise<EmbeddedPostgres> => {
  const { makes = true } = options
  // A directory without this file was never locked, so no process is creating a cluster there now.
  if (!makes && (await isAbsent(join(options.dataDir, lockFile)))) throw notInstalledIn(options.dataDir)
  await makeFolder(options.dataDir)
  const dataDir = await realpath(options.dataDir)
  const lock = await lockData(dataDir, options.role ?? 'server')
  try {
    if (!makes && (await isAbsent(join(dataDir, 'postgres')))) throw notInstalledIn(dataDir)
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
    passwordFile: join(dataDir, passwordFile),
  }
  const launcher = await findLauncher(dataDir)
  await stopOrphan(paths.cluster)
  const password = await storedPassword(paths.passwordFile, paths.cluster)
  await rename(paths.logFile, `${paths.logFile}.1`).catch(() => undefined)
  const log = await open(paths.logFile, 'a', 0o600)
  try {
    if (await isAbsent(paths.cluster)) await createCluster(launcher, paths, log.fd)
    const all = { ...defaultSettings, ...settings }
    const { child, port } = await startWithRetries(launcher, paths.cluster, all, paths.logFile, log.fd)
    const server = `127.0.0.1:${port}`
    const as = (role: string): string =>
      `postgres://${role}:${rolePassword(password, role)}@${server}/farebox`
    const url = as(service)
    const ownerUrl = `postgres://farebox:${password}@${server}`
    try {
      await createDatabase(ownerUrl, password)
      await lock.publish(url)
    } catch (error) {
      await stopChild(child)
      throw error
    }
    const addresses = { url, ownerUrl: `${ownerUrl}/farebox`, auditorUrl: as(auditor) }
    return running(child, addresses, lock, paths.logFile)
  } finally {
    await log.close()
  }
}

const endedByItself = async (how: string, logFile: string): Promise<Error> => {
  const tail = await tailOf(logFile).catch((error: Error) => error.message) // how it ended matters more than its log
  return new Error(`the embedded Postgres ended by itself (${how}); the end of ${logFile}:\n${tail}`)
}

const running = (
  child: ChildProcess,
  addresses: Pick<EmbeddedPostgres, 'url' | 'ownerUrl' | 'auditorUrl'>,
  lock: DataLock,
  logFile: string,
): EmbeddedPostgres => {
  let stopping: Promise<void> | null = null
  const failed = new Promise<Error>((resolve) => {
    child.once('exit', (code, signal) => {
      if (!stopping) resolve(endedByItself(signal ?? `exit code ${code}`, logFile))
    })
  })
  return {
    ...addresses,
    pid: child.pid!,
    failed,
    stop: () => {
      stopping ??= stopChild(child).then(() => lock.release())
      return stopping
    },
  }
}
