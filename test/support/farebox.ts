import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { stopOrphan } from '../../src/platform/postgres/postmaster.ts'
import { atEnd } from './cleanup.ts'
import { dataPrefix, placeOfData } from './postgres-server.ts'
import { until } from './until.ts'

const root = join(import.meta.dirname, '../..')

/** What every process of a test gets of the outside: where programs are, and the modules that were compiled before. */
export const surroundings = (): NodeJS.ProcessEnv => {
  const { PATH, HOME, NODE_COMPILE_CACHE } = process.env
  return { PATH, HOME, ...(NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE }) }
}

/** The settings that a test's process gets. */
const environment = (env: NodeJS.ProcessEnv): NodeJS.ProcessEnv => ({
  ...surroundings(),
  PORT: '0',
  LOG_LEVEL: 'warn',
  // Processes of their own; their tests ask for them.
  FAREBOX_GATEWAY_WORKERS: '0',
  FAREBOX_FREELIST_CHECKER: 'off',
  FAREBOX_AUDITOR: 'off',
  ...env,
})

/** A directory for FAREBOX_DATA that is gone with the test, with a Postgres that a killed process left. */
export const dataDirectory = async (t: TestContext): Promise<string> => {
  const dataDir = await mkdtemp(join(await placeOfData(), dataPrefix))
  atEnd(t, async () => {
    await stopOrphan(join(dataDir, 'postgres'))
    await rm(dataDir, { recursive: true, force: true })
  })
  return dataDir
}

export type Ended = {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly out: string
  readonly err: string
}

type Running = { readonly child: ChildProcess; out(): string; err(): string; readonly ended: Promise<Ended> }

const launch = (t: TestContext, args: readonly string[], env: NodeJS.ProcessEnv, cwd = root): Running => {
  const child = spawn(process.execPath, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] })
  let out = ''
  let err = ''
  child.stdout.on('data', (chunk) => {
    out += chunk
  })
  child.stderr.on('data', (chunk) => {
    err += chunk
  })
  const ended = once(child, 'close').then(([code, signal]) => ({ code, signal, out, err }))
  atEnd(t, async () => {
    child.kill('SIGKILL')
    await ended
  })
  return { child, out: () => out, err: () => err, ended }
}

/** Runs the command line to its end. */
export const farebox = (t: TestContext, args: readonly string[], env: NodeJS.ProcessEnv): Promise<Ended> =>
  launch(t, [join(root, 'src/cli.ts'), ...args], environment(env)).ended

/** Starts a process that is expected to end by itself, such as one that refuses to start. */
export const runToEnd = (
  t: TestContext,
  env: NodeJS.ProcessEnv,
  roles: readonly string[] = [],
): Promise<Ended> => launch(t, [join(root, 'src/main.ts'), ...roles], environment(env)).ended

/** Starts a process and sends it SIGTERM when its log has a line, before it is ready. */
export const stopAtStart = async (t: TestContext, env: NodeJS.ProcessEnv, line: RegExp): Promise<Ended> => {
  const { child, err, ended } = launch(t, [join(root, 'src/main.ts')], environment(env))
  await until(() => line.test(err()), { timeoutMs: 60_000, what: `the line ${line}` })
  child.kill('SIGTERM')
  return ended
}

export type FareboxProcess = {
  readonly pid: number
  /** E.g. `http://127.0.0.1:40123`; empty without the role `http`. */
  readonly baseUrl: string
  readonly out: () => string
  readonly err: () => string
  readonly ended: Promise<Ended>
  /** SIGTERM, and waits for the end. */
  stop(): Promise<Ended>
  /** SIGKILL, and waits for the end. */
  kill(): Promise<Ended>
}

/**
 * Starts the real server in a separate process, on a free port, and waits until it is ready. It is killed
 * with the test. Its only settings are those of `env`. With `mayEnd` it may end before it is ready, e.g. at a
 * crash point that it passes at its start; without it that fails the test. `from` is the folder of another
 * version of the code.
 */
export const startFarebox = async (
  t: TestContext,
  env: NodeJS.ProcessEnv,
  roles: readonly string[] = [],
  { mayEnd = false, from = root }: { readonly mayEnd?: boolean; readonly from?: string } = {},
): Promise<FareboxProcess> => {
  const { child, out, err, ended } = launch(t, [join(from, 'src/main.ts'), ...roles], environment(env), from)
  let over: Ended | null = null
  void ended.then((end) => {
    over = end
  })
  const line = await until(
    () => {
      if (over) return ['', '']
      return /^Farebox (?:listens on (\S+)|runs)$/m.exec(out())
    },
    { timeoutMs: 120_000, what: 'the start of Farebox' },
  )
  if (!mayEnd) assert.equal(over, null, `Farebox ended at its start: ${err()}`)
  const baseUrl = line[1] ?? ''
  if (baseUrl !== '')
    await until(async () => over !== null || (await fetch(`${baseUrl}/readyz`)).ok, {
      timeoutMs: 60_000,
      what: `readiness (${err()})`,
    })
  if (!mayEnd) assert.equal(over, null, `Farebox ended before it was ready: ${err()}`)
  const end = (signal: NodeJS.Signals) => () => {
    child.kill(signal)
    return ended
  }
  return { pid: child.pid!, baseUrl, out, err, ended, stop: end('SIGTERM'), kill: end('SIGKILL') }
}

/** A JSON call with a key. */
export const call = async (
  url: string,
  key: string,
  options: {
    readonly body?: unknown
    readonly method?: string
    readonly headers?: Record<string, string>
  } = {},
) => {
  const response = await fetch(url, {
    method: options.method ?? (options.body === undefined ? 'GET' : 'POST'),
    headers: {
      'X-API-Key': key,
      ...(options.body === undefined ? {} : { 'Content-Type': 'application/json' }),
      ...options.headers,
    },
    ...(options.body === undefined ? {} : { body: JSON.stringify(options.body) }),
  })
  // biome-ignore lint/suspicious/noExplicitAny: the tests read fields of many types
  return { status: response.status, headers: response.headers, body: (await response.json()) as any }
}
