import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { type Auditor, openAuditor } from '../../src/app/auditor.ts'
import { runCli } from '../../src/app/cli-program.ts'
import { registrationsFor } from '../../src/app/commands.ts'
import { readConfig } from '../../src/app/config.ts'
import { openCliContext } from '../../src/app/open-context.ts'
import { type Farebox, openFarebox, roles } from '../../src/app/start.ts'
import { createLogger } from '../../src/platform/http/logging.ts'
import { demoEnv } from '../support/demo-env.ts'
import { type HttpClient, httpClientOf } from '../support/http.ts'
import { emptyDatabase } from '../support/postgres.ts'
import { until } from '../support/until.ts'
import type { Printed } from './model.ts'

/** A running service with a movable clock, and a command line. */
export type Shop = {
  farebox(): Farebox
  auditor(): Auditor
  http(): HttpClient
  /** The addresses of the payment stand-ins; their clock is the service's. */
  sandbox(): string
  /** The clock of the service, milliseconds. */
  nowMs(): number
  /** Moves the clock of every process on. */
  wait(ms: number): void
  /** Down for so long, by that clock. */
  restart(downMs: number): Promise<void>
  /** Whether the read models hold everything that the log does. */
  caughtUp(): Promise<boolean>
  /** A command line with its own core, like a process next to the server. */
  operator(...args: readonly string[]): Promise<Printed>
  close(): Promise<void>
}

export type Settings = Readonly<Record<string, string>>

/** Settings of a service on this database; the directory is gone with the test. */
export const settingsFor = async (t: TestContext, url: string): Promise<Settings> => {
  const dataDir = await mkdtemp(join(tmpdir(), 'farebox-model-'))
  t.after(() => rm(dataDir, { recursive: true, force: true }))
  return { ...demoEnv(url, dataDir), LOG_LEVEL: 'fatal', PORT: '0' }
}

export const openShop = async (settings: Settings): Promise<Shop> => {
  let offsetMs = 0
  const config = {
    ...readConfig(settings),
    // Moves while the service runs; the clock guard reads the clock without it.
    get clockOffsetMs() {
      return offsetMs
    },
  }
  const open = async () => {
    const parts = {
      config,
      systemClock: Date.now,
      logger: createLogger(config.logLevel),
      kill: () => process.kill(process.pid, 'SIGKILL'),
    }
    const farebox = await openFarebox({ ...parts, roles, monotonicMs: () => performance.now() })
    const auditor = await openAuditor(parts)
    const close = async (): Promise<void> => {
      await auditor.close()
      await farebox.close()
    }
    const { baseUrl } = farebox
    await until(async () => (await fetch(`${baseUrl}/readyz`)).ok, { timeoutMs: 60_000, what: 'readiness' })
    return { farebox, auditor, close, http: await httpClientOf(baseUrl!) }
  }
  let running = await open()

  const operator = async (...args: readonly string[]): Promise<Printed> => {
    let out = ''
    let err = ''
    const code = await runCli([...args, '--json'], await registrationsFor(args), {
      out: (text) => {
        out += text
      },
      err: (text) => {
        err += text
      },
      open: (options) => openCliContext(config, true, Date.now, options),
    })
    if (out === '') throw new Error(`farebox ${args.join(' ')}: ${err}`)
    return { code, json: JSON.parse(out) }
  }

  return {
    farebox: () => running.farebox,
    auditor: () => running.auditor,
    http: () => running.http,
    sandbox: () => running.farebox.demo!.demo.sandbox!,
    nowMs: () => Date.now() + offsetMs,
    wait: (ms) => {
      offsetMs += ms
    },
    restart: async (downMs) => {
      await running.close()
      offsetMs += downMs
      running = await open()
    },
    caughtUp: async () => (await fetch(`${running.farebox.baseUrl}/readyz`)).ok,
    operator,
    close: () => running.close(),
  }
}

/** A copy of a database without connections, for one run; `drop` it. */
export const copyOf = async (url: string): Promise<{ readonly url: string; drop(): Promise<void> }> => {
  const cleanups: (() => unknown)[] = []
  // A run is shorter than its test, so it ends its own resources.
  const run = { after: (clean: () => unknown) => void cleanups.push(clean) } as unknown as TestContext
  const copy = await emptyDatabase(run, new URL(url).pathname.slice(1))
  return {
    url: copy.url,
    drop: async () => {
      for (const clean of cleanups.splice(0)) await clean()
    },
  }
}
