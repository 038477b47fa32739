import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import type { DestinationStream } from 'pino'
import { type Auditor, openAuditor } from '../../src/app/auditor.ts'
import { type Config, readConfig } from '../../src/app/config.ts'
import { roles as allRoles, type Farebox, openFarebox, type Role } from '../../src/app/start.ts'
import { createFinanceTokenService } from '../../src/features/finance/token-service.ts'
import type { Clock } from '../../src/kernel/clock.ts'
import { createLogger } from '../../src/platform/http/logging.ts'
import { actionsOn, addresses, applied, type StartedApp } from './app-actions.ts'
import { type Document, documentOf, type HttpClient, httpClient } from './http.ts'
import { operator } from './operator.ts'
import { serviceEnv } from './service-env.ts'
import { until } from './until.ts'

type Settings = Readonly<Record<string, string | undefined>>

export type AppOptions<Part extends PartName = never> = {
  /** What takes time to make and few tests need. */
  readonly with?: readonly Part[]
  readonly settings?: Settings
  /** Default: all. */
  readonly roles?: readonly Role[]
  readonly systemClock?: Clock
  readonly logTo?: DestinationStream
  /** An auditor runs in this process, too. */
  readonly audits?: true
}

/** Receivers of tests are on this machine. A deposit is polled only if a test moves the clock or says how often. */
const usualSettings = {
  LOG_LEVEL: 'fatal',
  PORT: '0',
  FAREBOX_WEBHOOK_ALLOW_LOOPBACK: 'on',
  FAREBOX_DEPOSIT_LOOK_MS: '3600000',
}

/** By settings: a service makes its document in more time than all the rest of its start takes. */
const documents = new Map<string, Promise<Document>>()

const documentFor = (settings: Settings, baseUrl: string): Promise<Document> => {
  const name = JSON.stringify(settings)
  const document = documents.get(name) ?? documentOf(baseUrl)
  documents.set(name, document)
  return document
}

const open = (
  config: Config,
  { roles = allRoles, systemClock = Date.now, logTo }: AppOptions,
): Promise<Farebox> =>
  openFarebox({
    config,
    roles,
    systemClock,
    monotonicMs: () => performance.now(),
    logger: createLogger(config.logLevel, logTo),
    kill: () => process.kill(process.pid, 'SIGKILL'),
  })

const audit = (config: Config, { systemClock = Date.now, logTo }: AppOptions): Promise<Auditor> =>
  openAuditor({
    config,
    systemClock,
    logger: createLogger(config.logLevel, logTo),
    kill: () => process.kill(process.pid, 'SIGKILL'),
  })

const start = async (t: TestContext, options: AppOptions): Promise<StartedApp> => {
  const { settings = {} } = options
  const running: { readonly close: () => Promise<void> }[] = []
  const close = async (): Promise<void> => {
    for (const one of running.splice(0).toReversed()) await one.close()
  }
  // The first that is registered runs first: before the database goes.
  t.after(close)
  const dataDir = await mkdtemp(join(tmpdir(), 'farebox-test-'))
  t.after(() => rm(dataDir, { recursive: true, force: true }))
  const env = { ...(await serviceEnv(t, dataDir)), ...usualSettings, ...settings }
  const read = readConfig(env)
  const clock = { aheadMs: read.clockOffsetMs }
  const config = {
    ...read,
    get clockOffsetMs() {
      return clock.aheadMs
    },
  }
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

export type TestApp<Part extends PartName = never> = Actions & PartsOf<Part>

/**
 * The whole service inside this process, with the demo data and the sandbox, on a new database and a free port; closed
 * with the test. `startFarebox` of `./farebox.ts` starts it in a separate process.
 */
export const testApp = async <Part extends PartName = never>(
  t: TestContext,
  options: AppOptions<Part> = {},
): Promise<TestApp<Part>> => {
  const app = actionsOn(await start(t, options as AppOptions))
  for (const name of options.with ?? []) Object.assign(app, await parts[name](app))
  return app as TestApp<Part>
}

/** A client of one more server on the database of an app, inside this process. */
export const secondClient = async (
  t: TestContext,
  { env, document }: Pick<TestApp, 'env' | 'document'>,
  settings: Settings = {},
): Promise<HttpClient> => {
  const farebox = await open(readConfig({ ...env, ...settings }), { roles: ['http'] })
  t.after(() => farebox.close())
  return httpClient(farebox.baseUrl ?? '', document)
}
