import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'

export const username = 'bench01'
export const password = 'benchword1'

export type Speaks = 'http' | 'socks5'

/** A proxy under test: a process on one core. */
export type Contender = {
  readonly name: string
  readonly speaks: Speaks
  /** Credentials are sent and checked. */
  readonly authenticates: boolean
  /** So many processes share the port, each on a core of its own. */
  readonly workers: number
  /** Its command line. `port` is free; a program that says when it listens prints it. */
  command(
    directory: string,
    port: number,
  ): Promise<{ readonly argv: readonly string[]; readonly prints: boolean }>
}

export type Running = {
  readonly contender: Contender
  readonly pids: readonly number[]
  readonly port: number
  stop(): Promise<void>
}

const own = (name: string, file: string, speaks: Speaks, workers = 1): Contender => ({
  name,
  speaks,
  authenticates: true,
  workers,
  command: async (_, port) => ({
    argv: [
      process.execPath,
      // As the service runs: young objects of many connections live through fewer collections.
      '--max-semi-space-size=64',
      join(import.meta.dirname, file),
      username,
      password,
      String(port),
    ],
    prints: true,
  }),
})

const withFile = (
  name: string,
  authenticates: boolean,
  text: (directory: string, port: number) => string,
  argv: (file: string) => readonly string[],
): Contender => ({
  name,
  speaks: 'http',
  authenticates,
  workers: 1,
  command: async (directory, port) => {
    const file = join(directory, `${name}.conf`)
    await writeFile(file, text(directory, port))
    return { argv: argv(file), prints: false }
  },
})

/** squid without cache, log and authentication: what it is quickest with. */
const squid = withFile(
  'squid',
  false,
  (directory, port) => `
http_port 127.0.0.1:${port}
http_access allow all
cache deny all
cache_mem 8 MB
access_log none
cache_log /dev/null
cache_store_log none
pid_filename none
coredump_dir ${directory}
max_filedescriptors 16384
pinger_enable off
shutdown_lifetime 0 seconds
via off
forwarded_for delete
`,
  (file) => ['squid', '-N', '-f', file],
)

const tinyproxy = withFile(
  'tinyproxy',
  true,
  (_, port) => `
Port ${port}
Listen 127.0.0.1
Timeout 600
MaxClients 16384
LogLevel Critical
BasicAuth ${username} ${password}
DisableViaHeader Yes
`,
  (file) => ['tinyproxy', '-d', '-c', file],
)

const microsocks: Contender = {
  name: 'microsocks',
  speaks: 'socks5',
  authenticates: true,
  workers: 1,
  command: async (_, port) => ({
    argv: ['microsocks', '-i', '127.0.0.1', '-p', String(port), '-u', username, '-P', password],
    prints: false,
  }),
}

const isThere = (program: string): Promise<boolean> =>
  promisify(execFile)('sh', ['-c', `command -v ${program}`]).then(
    () => true,
    () => false,
  )

/** Ours, over both protocols, `proxy-chain`, and those of Debian's packages that are installed. */
export const contenders = async (): Promise<readonly Contender[]> => {
  const installed: Contender[] = []
  for (const each of [squid, tinyproxy, microsocks]) if (await isThere(each.name)) installed.push(each)
  return [
    own('farebox', 'ours.ts', 'http'),
    own('farebox, SOCKS5', 'ours.ts', 'socks5'),
    own('farebox, two', 'ours.ts', 'http', 2),
    ...installed,
    own('proxy-chain', 'proxy-chain.ts', 'http'),
  ]
}

export const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  await once(server, 'close')
  return port
}

const accepts = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => resolve(true))
    socket.once('error', () => resolve(false))
    socket.once('connect', () => socket.destroy())
  })

const startMs = 15_000

const startProcess = async (
  argv: readonly string[],
  core: number,
  prints: boolean,
): Promise<ChildProcess> => {
  const pinned = (await isThere('taskset')) ? ['taskset', '-c', String(core), ...argv] : argv
  const child = spawn(pinned[0]!, pinned.slice(1), { stdio: ['ignore', 'pipe', 'ignore'] })
  if (prints) await once(child.stdout!, 'data', { signal: AbortSignal.timeout(startMs) })
  return child
}

/** Starts a contender on the first cores where `taskset` is there. */
export const startContender = async (contender: Contender, directory: string): Promise<Running> => {
  const port = await freePort()
  const { argv, prints } = await contender.command(directory, port)
  const children: ChildProcess[] = []
  const end = (): void => {
    for (const child of children) child.kill('SIGKILL')
  }
  process.once('exit', end)
  for (let core = 0; core < contender.workers; core++) children.push(await startProcess(argv, core, prints))
  const deadlineMs = performance.now() + startMs
  while (!(await accepts(port))) {
    if (performance.now() > deadlineMs || children.some(({ exitCode }) => exitCode !== null))
      throw new Error(`${contender.name} does not take connections`)
    await sleep(50)
  }
  return {
    contender,
    // taskset becomes the program that it starts.
    pids: children.map(({ pid }) => pid!),
    port,
    stop: async () => {
      process.off('exit', end)
      const running = children.filter(({ exitCode }) => exitCode === null)
      const exits = running.map((child) => once(child, 'exit'))
      end()
      await Promise.all(exits)
    },
  }
}
