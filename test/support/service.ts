import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import type { DestinationStream } from 'pino'
import { readConfig } from '../../src/app/config.ts'
import type { DemoFile } from '../../src/app/demo/demo-file.ts'
import { type Auditor, openAuditor } from '../../src/app/auditor.ts'
import { type Farebox, openFarebox, type Role, roles } from '../../src/app/start.ts'
import type { Clock } from '../../src/kernel/clock.ts'
import { createLogger } from '../../src/platform/http/logging.ts'
import { demoEnv } from './demo-env.ts'
import { startEventStore } from './eventstore-server.ts'
import { type Document, documentOf, type HttpClient, httpClient } from './http.ts'
import { testDatabase } from './postgres.ts'
import { seededDatabase } from './seeded.ts'
import { until } from './until.ts'

export type Service = {
  readonly farebox: Farebox
  /** Null without `audits`. */
  readonly auditor: Auditor | null
  /** Closes the auditor and the service. The database stays. */
  close(): Promise<void>
  readonly baseUrl: string
  readonly demo: DemoFile
  /** The environment that another process on the same database needs. */
  readonly env: Readonly<Record<string, string>>
  /** The service's interface description. */
  readonly document: Document
  /** Clients whose every answer is checked against the interface description. */
  readonly buyer: HttpClient
  readonly reseller: HttpClient
  readonly scraper: HttpClient
}

/** A test's replacements for parts of the process. */
export type ServiceParts = {
  readonly systemClock?: Clock
  /** How far the service's clock is ahead of the system's by now, as `FAREBOX_CLOCK_OFFSET_MS` sets it once. */
  readonly clockOffsetMs?: () => number
  readonly logTo?: DestinationStream
  /** Default: all. */
  readonly roles?: readonly Role[]
  /** Whether an auditor runs in this process, too; default: no. */
  readonly audits?: true
}

/** Which log the services of these tests keep: FAREBOX_TEST_LOG. */
export const logInPostgres = (process.env.FAREBOX_TEST_LOG ?? 'postgres') === 'postgres'

/** For tests that reach into the log's tables. */
export const skipWithoutPostgresLog = logInPostgres
  ? false
  : 'reaches into the log in Postgres: FAREBOX_TEST_LOG is eventstoredb'

/** With FAREBOX_TEST_LOG=eventstoredb every service of these tests has its log in a separate server. */
export const logSettings = async (t: TestContext): Promise<Readonly<Record<string, string>>> => {
  if (logInPostgres) return {}
  const kind = process.env.FAREBOX_TEST_LOG
  if (kind !== 'eventstoredb') throw new Error(`FAREBOX_TEST_LOG is postgres or eventstoredb, not ${kind}`)
  return { EVENTSTORE_URL: (await startEventStore(t)).url }
}

/** Settings of a service on a separate database and log, with the demo. */
export const serviceEnv = async (t: TestContext, dataDir: string) =>
  logInPostgres
    ? await seededDatabase(t, dataDir)
    : { ...demoEnv((await testDatabase(t)).url, dataDir), ...(await logSettings(t)) }

/** By settings: a service makes its document in more time than all the rest of its start takes. */
const documents = new Map<string, Promise<Document>>()

const documentFor = (settings: Readonly<Record<string, string>>, baseUrl: string): Promise<Document> => {
  const name = JSON.stringify(settings)
  const document = documents.get(name) ?? documentOf(baseUrl)
  documents.set(name, document)
  return document
}

/**
 * The whole service inside this process, with the demo data, on a new database and a free port; closed with
 * the test. `test/support/farebox.ts` starts it in a separate process.
 */
export const startService = async (
  t: TestContext,
  settings: Readonly<Record<string, string>> = {},
  parts: ServiceParts = {},
): Promise<Service> => {
  const running: { readonly close: () => Promise<void> }[] = []
  const close = async (): Promise<void> => {
    for (const one of running.splice(0).toReversed()) await one.close()
  }
  // The first that is registered runs first: before the database goes.
  t.after(close)
  const dataDir = await mkdtemp(join(tmpdir(), 'farebox-test-'))
  t.after(() => rm(dataDir, { recursive: true, force: true }))
  const env = {
    ...(await serviceEnv(t, dataDir)),
    LOG_LEVEL: 'fatal',
    PORT: '0',
    ...settings,
  }
  const read = readConfig(env)
  const { clockOffsetMs = () => read.clockOffsetMs } = parts
  const config = {
    ...read,
    get clockOffsetMs() {
      return clockOffsetMs()
    },
  }
  const farebox = await openFarebox({
    config,
    roles: parts.roles ?? roles,
    systemClock: parts.systemClock ?? Date.now,
    monotonicMs: () => performance.now(),
    logger: createLogger(config.logLevel, parts.logTo),
    kill: () => process.kill(process.pid, 'SIGKILL'),
  })
  running.push(farebox)
  let auditor: Auditor | null = null
  if (parts.audits) {
    auditor = await openAuditor({
      config,
      systemClock: parts.systemClock ?? Date.now,
      logger: createLogger(config.logLevel, parts.logTo),
      kill: () => process.kill(process.pid, 'SIGKILL'),
    })
    running.push(auditor)
  }
  const { baseUrl, demo } = farebox
  if (baseUrl === null || demo === null) throw new Error('the service has no address or no demo')
  await until(async () => (await fetch(`${baseUrl}/readyz`)).ok, { timeoutMs: 60_000, what: 'readiness' })
  const { buyer, reseller, scraper } = demo.demo
  const document = await documentFor(settings, baseUrl)
  return {
    farebox,
    auditor,
    close,
    baseUrl,
    demo: demo.demo,
    env,
    document,
    buyer: httpClient(baseUrl, document, buyer.key),
    reseller: httpClient(baseUrl, document, reseller.key),
    scraper: httpClient(baseUrl, document, scraper.key),
  }
}
