import { randomUUID } from 'node:crypto'
import { channel } from 'node:diagnostics_channel'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import type { DestinationStream } from 'pino'
import { type Auditor, openAuditor } from '../../src/app/auditor.ts'
import { type Config, readConfig } from '../../src/app/config.ts'
import { seedAccounts } from '../../src/app/demo/seed.ts'
import { roles as allRoles, type Farebox, openFarebox, type Role } from '../../src/app/start.ts'
import { createFinanceTokenService } from '../../src/features/finance/token-service.ts'
import type { Clock } from '../../src/kernel/clock.ts'
import { createLogger } from '../../src/platform/http/logging.ts'
import { actionsOn, addresses, applied, type StartedApp } from './app-actions.ts'
import { type Document, documentOf, type HttpClient, httpClient } from './http.ts'
import { operator } from './operator.ts'
import { serviceEnv } from './service-env.ts'
import { until } from './until.ts'
import { fileResources, workerResources } from './worker-resources.ts'

type Settings = Readonly<Record<string, string | undefined>>

type SharedOptions<Part extends PartName> = {
  /** Default: all. */
  readonly roles?: readonly Role[]
  /** What takes time to make and few tests need. */
  readonly with?: readonly Part[]
}

type FileOptions = {
  /** One service for all tests of the file that give the same options. Its clock only goes forward. */
  readonly own: 'file'
  readonly settings?: Settings
  readonly roles?: readonly Role[]
  /** An auditor runs in this process, too. */
  readonly audits?: true
}

/** A service of the test's own. */
export type OwnOptions = Omit<FileOptions, 'own'> & {
  readonly own: true
  /** Puts something between the service and its database, and gives the new address. */
  readonly through?: (url: string) => Promise<string>
  readonly systemClock?: Clock
  readonly logTo?: DestinationStream
}

/** Receivers of tests are on this machine. A deposit is polled only if a test moves the clock or says how often. */
const usualSettings = {
  LOG_LEVEL: 'fatal',
  PORT: '0',
  FAREBOX_WEBHOOK_ALLOW_LOOPBACK: 'on',
  FAREBOX_GATEWAY_ALLOW_LOOPBACK: 'on',
  FAREBOX_DEPOSIT_LOOK_MS: '3600000',
}

/** By settings: the processor time of a document is nearly that of a start. */
const documents = new Map<string, Promise<Document>>()

const documentFor = (settings: Settings, baseUrl: string): Promise<Document> => {
  const name = JSON.stringify(settings)
  const document = documents.get(name) ?? documentOf(baseUrl)
  documents.set(name, document)
  return document
}

const open = (
  config: Config,
  { roles = allRoles, systemClock = Date.now, logTo }: OwnOptions,
): Promise<Farebox> =>
  openFarebox({
    config,
    roles,
    systemClock,
    monotonicMs: () => performance.now(),
    logger: createLogger(config.logLevel, logTo),
    kill: () => process.kill(process.pid, 'SIGKILL'),
  })

const audit = (config: Config, { systemClock = Date.now, logTo }: OwnOptions): Promise<Auditor> =>
  openAuditor({
    config,
    systemClock,
    logger: createLogger(config.logLevel, logTo),
    kill: () => process.kill(process.pid, 'SIGKILL'),
  })

const start = async (t: TestContext, options: OwnOptions): Promise<StartedApp> => {
  const { settings = {}, through } = options
  const running: { readonly close: () => Promise<void> }[] = []
  const close = async (): Promise<void> => {
    for (const one of running.splice(0).toReversed()) await one.close()
  }
  // The first that is registered runs first: before the database goes.
  t.after(close)
  const dataDir = await mkdtemp(join(tmpdir(), 'farebox-test-'))
  t.after(() => rm(dataDir, { recursive: true, force: true }))
  const seeded = await serviceEnv(t, dataDir)
  const address = through && { DATABASE_URL: await through(seeded.DATABASE_URL) }
  const env = { ...seeded, ...usualSettings, ...settings, ...address }
  const read = readConfig(env)
  const clock = { aheadMs: read.clockOffsetMs }
  const config = {
    ...read,
    get clockOffsetMs() {
      return clock.aheadMs
    },
  }
  channel('test.service').publish({})
  const farebox = await open(config, options)
  running.push(farebox)
  const auditor = options.audits ? await audit(config, options) : null
  if (auditor !== null) running.push(auditor)
  const { baseUrl, demo } = farebox
  if (baseUrl === null || demo === null) throw new Error('the service has no address or no demo')
  await until(async () => (await fetch(`${baseUrl}/readyz`)).ok, { timeoutMs: 60_000, what: 'readiness' })
  const document = await documentFor(settings, baseUrl)
  return { farebox, auditor, close, baseUrl, demo: demo.demo, env, document, clock }
}

type Actions = ReturnType<typeof actionsOn>

const parts = {
  /** A token that reads the books and nothing else. */
  financeToken: async ({ core }: Actions) => {
    const token = { name: 'test', expiresAtMs: null }
    return { financeToken: applied(await createFinanceTokenService(core).issue(token, operator)).key }
  },
  /** The demo's reseller has a markup and takes cards in the sandbox. */
  cardReseller: async ({ demo, resellerOf, run }: Actions) => {
    const seller = resellerOf(demo.reseller)
    const { accountId } = seller
    await run('reseller', 'set', '--account', accountId, '--markup', '1.30', '--merchant-name', 'Ann & Co')
    const gateway = ['reseller', 'gateway', '--account', accountId, '--sandbox']
    await run(...gateway, '--rail', 'card', '--provider', 'stripe')
    const path = '/api/v1/products/isp-static/price?quantity=4&country=USA&period_days=30'
    const quote = await until(async () => {
      const { body } = await seller.client.get(path)
      return body.marginCents > 0 && body
    })
    return {
      seller,
      /** An order of four addresses by card, and its price. */
      four: addresses(4, { method: 'card' }),
      quote,
      /** In cents, from the read table. */
      listedCredit: async (name: string): Promise<number> => {
        const { customers } = await run('customers', 'list', '--account', accountId)
        return customers.find((one: { customer: string }) => one.customer === name)?.creditCents
      },
    }
  },
}
type PartName = keyof typeof parts
type PartsOf<Name extends PartName> = (
  Name extends PartName
    ? (of: Awaited<ReturnType<(typeof parts)[Name]>>) => void
    : never
) extends (of: infer All) => void
  ? All
  : never

export type OwnApp<Part extends PartName = never> = Actions & PartsOf<Part>
/** A service that other tests use, too. They have the same clock, and it stays open. */
export type TestApp<Part extends PartName = never> = Omit<Actions, 'ahead' | 'wait' | 'waitUntil' | 'close'> &
  PartsOf<Part>

/** By their options. */
const shared = new Map<string, Promise<StartedApp>>()

/** A service that the tests of the file or of the process share, with new accounts of a demo. */
const sharedApp = async (options: FileOptions | SharedOptions<PartName>): Promise<StartedApp> => {
  const name = JSON.stringify({ ...options, with: [] })
  const { context } = 'own' in options ? fileResources : workerResources
  if (!shared.has(name)) {
    const forget = () => void shared.delete(name)
    const starting = start(context, { ...options, own: true })
    starting.catch(forget)
    shared.set(name, starting)
    context.after(forget)
  }
  const started = await shared.get(name)!
  // Another test may have failed with faults of the sandbox switched on.
  const { sandbox } = started.demo
  if (sandbox !== null) await fetch(`${sandbox}/_sandbox/switches`, { method: 'DELETE' })
  const accounts = await seedAccounts(started.farebox.core, `${randomUUID()}.example`, operator)
  return { ...started, demo: { ...started.demo, ...accounts } }
}

/**
 * The whole service inside this process, with the sandbox, on a new database and a free port. Without `own` all files
 * share it, and the accounts of the demo are new. A test that moves the clock or changes settings needs `own: 'file'`:
 * the tests of its file share one. A test that changes what all accounts share, kills, or reads rows of all accounts
 * needs `own: true`, which is closed with the test. `startFarebox` of `./farebox.ts` starts the service in a separate
 * process.
 */
export const testApp: {
  <Part extends PartName = never>(t: TestContext, options?: SharedOptions<Part>): Promise<TestApp<Part>>
  <Part extends PartName = never>(
    t: TestContext,
    options: (OwnOptions | FileOptions) & SharedOptions<Part>,
  ): Promise<OwnApp<Part>>
} = async <Part extends PartName = never>(
  t: TestContext,
  options: SharedOptions<Part> | ((OwnOptions | FileOptions) & SharedOptions<Part>) = {},
): Promise<OwnApp<Part>> => {
  const isOwn = 'own' in options && options.own === true
  const app = actionsOn(isOwn ? await start(t, options) : await sharedApp(options))
  for (const name of options.with ?? []) Object.assign(app, await parts[name](app))
  return app as OwnApp<Part>
}

/**
 * A client of one more server on the database of an app, inside this process. It uses the sandbox of the app: one of its
 * own would take over the exits, and end with it.
 */
export const secondClient = async (
  t: TestContext,
  { env, document, demo }: Pick<TestApp, 'env' | 'document' | 'demo'>,
  settings: Settings = {},
): Promise<HttpClient> => {
  const sandbox = demo.sandbox === null ? {} : { FAREBOX_SANDBOX_URL: demo.sandbox }
  const config = readConfig({ ...env, ...sandbox, ...settings })
  const farebox = await open(config, { own: true, roles: ['http'] })
  t.after(() => farebox.close())
  return httpClient(farebox.baseUrl ?? '', document)
}
