import { join, resolve } from 'node:path'
import { z } from 'zod'
import {
  sealTargetConfigOf,
  sealTargetProblems,
  sealTargetSecrets,
  sealTargetSettings,
} from '../audit/external-seals/settings.ts'
import { type AuditAction, auditActions } from '../audit/settings.ts'
import {
  type FreelistConfig,
  type FreeToolConfig,
  freelistConfigOf,
  freelistSettings,
  freeToolConfigOf,
  freeToolSettings,
} from '../features/free-list/settings.ts'
import {
  type PaymentConfig,
  paymentConfigOf,
  paymentProblems,
  paymentSecrets,
  paymentSettings,
} from '../features/payments/settings.ts'
import {
  hasScraperKey,
  type ScraperConfig,
  scraperConfigOf,
  scraperProblems,
  scraperSecrets,
  scraperSettings,
} from '../features/scrapers/settings.ts'
import {
  type ConsoleConfig,
  consoleConfigOf,
  consoleProblems,
  consoleSecrets,
  consoleSettings,
} from '../features/sign-in/settings.ts'
import { type GatewayConfig, gatewayConfigOf, gatewayProblems, gatewaySettings } from '../gateway/settings.ts'
import { isTimeZone } from '../kernel/calendar.ts'
import type { CrashAt } from '../kernel/crash-points.ts'
import {
  crashAt,
  eventStore,
  key,
  keyExpected,
  oneOf,
  onOff,
  postgresUrl,
  proxies,
  rate,
  text,
  whole,
} from '../platform/cli/setting-forms.ts'
import type { ConnectionLimits, TrustedProxies } from '../platform/http/connections.ts'
import type { Rate } from '../platform/http/rate-limiter.ts'
import type { StoreSettings } from '../platform/outgoing/open-object-store.ts'

/** Relative paths are resolved against it, so that commands find the same data from any working directory. */
const packageRoot = join(import.meta.dirname, '../..')

/**
 * Every setting: its name in the environment, its accepted values and its default. `farebox settings` prints all three.
 * Defaults are written as in the environment.
 */
export const settings = {
  PORT: whole(0, 65_535).prefault('3000').describe('The port of the HTTP server; 0 chooses a free one.'),
  HOST: text('a host name or an address')
    .prefault('127.0.0.1')
    .describe('The listening address of the HTTP server; 0.0.0.0 is every interface.'),
  FAREBOX_DATA: text('a directory')
    .prefault('.farebox')
    .transform((path) => resolve(packageRoot, path))
    .describe(
      'The directory of the embedded Postgres, the generated keys and demo.json; a relative path starts at the directory of Farebox.',
    ),
  DATABASE_URL: postgresUrl('user')
    .optional()
    .describe('An external Postgres instead of the embedded one. Several processes may share it.'),
  DATABASE_OWNER_URL: postgresUrl('owner')
    .optional()
    .describe(
      'The same database as its owner, for migrations at a start; DATABASE_URL is then a role that can append to the log but not change it.',
    ),
  DATABASE_AUDITOR_URL: postgresUrl('auditor')
    .optional()
    .describe(
      "The same database with a role of the auditor's own. The role of DATABASE_URL can then neither end its sessions nor write its tables.",
    ),
  EVENTSTORE_URL: eventStore
    .optional()
    .describe('The EventStoreDB, or cluster, that stores the log instead of Postgres.'),
  LOG_LEVEL: oneOf(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'])
    .prefault('info')
    .describe('The lowest level of log lines; default on a terminal: warn.'),
  FAREBOX_LOG_FORMAT: oneOf(['auto', 'json', 'pretty'])
    .prefault('auto')
    .describe('The format of log lines: json for programs, pretty for people; auto: pretty on a terminal.'),
  FAREBOX_RATE_LIMIT: onOff.prefault('on').describe('off: no rate limits.'),
  // The limits of docs/reference/api.md, "Rate limits".
  FAREBOX_RATE_KEY: rate.prefault('300/50').describe('Requests of one key: burst, and rate per second.'),
  FAREBOX_RATE_ADDRESS: rate
    .prefault('600/100')
    .describe('Requests of one client address: burst, and rate per second.'),
  FAREBOX_RATE_SCRAPES: rate
    .prefault('100/20')
    .describe('Scraper calls of one account over all processes: burst, and rate per second.'),
  FAREBOX_CONNECTIONS: whole(16, 1_000_000)
    .prefault('10000')
    .describe(
      'Open connections of one process; at the limit, a new one closes the one that has waited longest for its client.',
    ),
  FAREBOX_CONNECTIONS_ADDRESS: whole(1, 1_000_000)
    .prefault('500')
    .describe('Open connections of one address (one IPv6 /64); trusted proxies are exempt.'),
  FAREBOX_TRUSTED_PROXY: proxies
    .optional()
    .describe('Your proxies whose X-Forwarded-For is trusted: addresses and networks.'),
  FAREBOX_METRICS_TOKEN: text('a text of at least 16 characters')
    .min(16, 'a text of at least 16 characters')
    .optional()
    .describe('A bearer token for /metrics and for the details of /readyz.'),
  FAREBOX_METRICS_PORT: whole(0, 65_535)
    .optional()
    .describe('A port of 127.0.0.1 with /metrics and /readyz without a token; 0 chooses a free one.'),
  FAREBOX_DEMO: onOff
    .optional()
    .describe(
      'on: an empty log gets a demo catalogue, stock and accounts, and payments go to a sandbox. off: it stays empty. Default: on; with DATABASE_URL off.',
    ),
  FAREBOX_MASTER_KEY: key
    .optional()
    .describe(
      'Encrypts secrets and derives credentials. Generated in FAREBOX_DATA for the embedded Postgres.',
    ),
  FAREBOX_SEAL_KEY: key
    .optional()
    .describe('Signs the seals of the log. Generated in FAREBOX_DATA for the embedded Postgres.'),
  FAREBOX_ACCOUNTING_TIME_ZONE: text('a time zone such as Europe/Berlin')
    .refine(isTimeZone, 'a time zone such as Europe/Berlin')
    .prefault('UTC')
    .describe('The time zone of accounting days and months: dates of reports, closings and daily journals.'),
  FAREBOX_SEAL_EVENTS: whole(1, 1_000_000).prefault('10000').describe('Seal after this many new events.'),
  FAREBOX_SEAL_SECONDS: whole(1, 86_400)
    .prefault('300')
    .describe('Seal new events after this many seconds at the latest.'),
  ...sealTargetSettings,
  FAREBOX_LAWS: onOff
    .prefault('on')
    .describe('on: the auditor checks events against the invariants. off: only "ledger verify" checks them.'),
  FAREBOX_AUDITOR: onOff
    .prefault('on')
    .describe(
      'on: a start without roles also starts the auditor. off: "farebox audit" runs it, here or on another machine.',
    ),
  FAREBOX_AUDIT_ACTION: oneOf(auditActions)
    .prefault('alarm')
    .describe(
      'What the auditor does about an event that violates an invariant, until "ledger decide". alarm: only an alarm. stop-sealing: also no more seals. block: also block its account.',
    ),
  FAREBOX_SIGNING: onOff
    .prefault('on')
    .describe('on: each process signs its appends to the log in Postgres. off: no signatures.'),
  ...freeToolSettings,
  ...gatewaySettings,
  ...freelistSettings,
  ...paymentSettings,
  ...scraperSettings,
  ...consoleSettings,
  FAREBOX_POOL_SIZE: whole(4, 500)
    .prefault('20')
    .describe('The maximum number of Postgres connections of one process.'),
  FAREBOX_STATEMENT_TIMEOUT_MS: whole(100, 3_600_000)
    .prefault('30000')
    .describe("The maximum duration of a request's statement in Postgres."),
  FAREBOX_SHUTDOWN_TIMEOUT_MS: whole(0, 600_000)
    .prefault('15000')
    .describe(
      'The maximum duration of a shutdown, at least a second. Running requests and connections get two thirds of it, or all but five seconds.',
    ),
  FAREBOX_SHUTDOWN_DELAY_MS: whole(0, 120_000)
    .prefault('0')
    .describe(
      'How long new connections are accepted after SIGTERM while /readyz already answers 503. A balancer that polls /readyz sends them elsewhere meanwhile.',
    ),
  FAREBOX_WEBHOOK_ALLOW_LOOPBACK: onOff
    .optional()
    .describe(
      'Development only: on allows webhooks to this machine, and over plain http. Default: off; on for a demo that only this machine reaches.',
    ),
  FAREBOX_GATEWAY_ALLOW_LOOPBACK: onOff
    .prefault('off')
    .describe("Development only: on allows lines to reach this machine, only through the sandbox's exits."),
  FAREBOX_CLOCK_OFFSET_MS: whole(-315_360_000_000, 315_360_000_000)
    .prefault('0')
    .describe("Development only: moves the whole service's clock."),
  FAREBOX_CRASH_AT: crashAt
    .optional()
    .describe('Tests only: the process kills itself at the n-th pass of a crash point.'),
} as const

const schema = z.object(settings)
type Values = z.output<typeof schema>

/** Settings whose values are never shown. */
export const hiddenSettings: ReadonlySet<string> = new Set([
  'DATABASE_URL',
  'DATABASE_OWNER_URL',
  'DATABASE_AUDITOR_URL',
  'EVENTSTORE_URL',
  'FAREBOX_MASTER_KEY',
  'FAREBOX_SEAL_KEY',
  'FAREBOX_METRICS_TOKEN',
  ...sealTargetSecrets,
  ...paymentSecrets,
  ...scraperSecrets,
  ...consoleSecrets,
])

export type Config = {
  readonly port: number
  readonly host: string
  /** Absolute. */
  readonly dataDir: string
  /** Null: the embedded Postgres. */
  readonly databaseUrl: string | null
  /** Null: the serving role migrates, or another process does. */
  readonly databaseOwnerUrl: string | null
  /** Null: the auditor uses the service's role. */
  readonly databaseAuditorUrl: string | null
  /** Null: the log is in Postgres. */
  readonly eventStoreUrl: string | null
  readonly logLevel: Values['LOG_LEVEL']
  readonly logFormat: Values['FAREBOX_LOG_FORMAT']
  /** Null: no limits. */
  readonly rates: { readonly key: Rate; readonly address: Rate; readonly scrapes: Rate } | null
  readonly connections: ConnectionLimits
  /** Null: none. */
  readonly trustedProxies: TrustedProxies | null
  /** Null: no token gives access to the metrics. */
  readonly metricsToken: string | null
  /** The port of a local listener for the metrics; null: none. */
  readonly metricsPort: number | null
  readonly demo: boolean
  /** 32 bytes; null: stored under `dataDir`. */
  readonly masterKey: Buffer | null
  readonly sealKey: Buffer | null
  /** New events are sealed when there are this many, or this many seconds after the first of them. */
  /** The time zone of accounting days and months (IANA). */
  readonly accountingTimeZone: string
  readonly seal: { readonly events: number; readonly seconds: number }
  /** The store that each seal is delivered to, and its credentials. */
  readonly sealTarget: StoreSettings
  /** Whether the auditor checks events against the invariants. */
  readonly checkInvariants: boolean
  /** Whether a start without roles also starts the auditor. */
  readonly auditor: boolean
  /** The effect of a violation, in addition to the alarm. */
  readonly auditAction: AuditAction
  /** Whether processes sign the batches that they append. */
  readonly signing: boolean
  readonly freeTools: FreeToolConfig
  readonly gateway: GatewayConfig
  readonly freelist: FreelistConfig
  readonly payments: PaymentConfig
  readonly scrapers: ScraperConfig
  readonly console: ConsoleConfig
  readonly poolSize: number
  readonly statementTimeoutMs: number
  readonly shutdownTimeoutMs: number
  readonly shutdownDelayMs: number
  /** Webhooks may use loopback addresses and plain http. */
  readonly webhookAllowLoopback: boolean
  /** Targets on this machine are allowed through the sandbox's exits. */
  readonly gatewayAllowLoopback: boolean
  readonly clockOffsetMs: number
  readonly crashAt: CrashAt | null
}

/** All wrong settings at once. The message names each one with its given and its expected value. */
export class SettingsRefused extends Error {
  override readonly name = 'SettingsRefused'
  constructor(problems: readonly string[]) {
    super(`${problems.length === 1 ? 'a setting is' : 'settings are'} wrong:\n  ${problems.join('\n  ')}`)
  }
}

const shownValue = (name: string, value: string | undefined): string => {
  if (value === undefined) return 'nothing'
  return hiddenSettings.has(name) ? 'a value that is not shown' : JSON.stringify(value)
}

const roleProblems = (env: NodeJS.ProcessEnv): string[] =>
  ['DATABASE_OWNER_URL', 'DATABASE_AUDITOR_URL']
    .filter((name) => env[name] !== undefined && env.DATABASE_URL === undefined)
    .map((name) => `${name} is for a Postgres of yours: expected DATABASE_URL beside it`)

const formerNames = (env: NodeJS.ProcessEnv): string[] =>
  env.FAREBOX_ON_VIOLATION === undefined
    ? []
    : ['FAREBOX_ON_VIOLATION: expected its new name, FAREBOX_AUDIT_ACTION; the default is now alarm']

const requiredKeys = (env: NodeJS.ProcessEnv): string[] =>
  env.DATABASE_URL === undefined
    ? []
    : (['FAREBOX_MASTER_KEY', 'FAREBOX_SEAL_KEY'] as const)
        .filter((name) => env[name] === undefined)
        .map((name) => `${name} is required with DATABASE_URL: expected ${keyExpected}`)

/**
 * Reads every setting from the environment. An empty value counts as not set.
 * @throws SettingsRefused with every wrong setting
 */
export const readConfig = (environment: NodeJS.ProcessEnv): Config => {
  const given = Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== ''))
  // A database of its own is a real installation: a demo there gives money and keys away.
  const env: NodeJS.ProcessEnv = { FAREBOX_DEMO: given.DATABASE_URL === undefined ? 'on' : 'off', ...given }
  const parsed = schema.safeParse(env)
  const invalidSettings = (parsed.error?.issues ?? []).map((issue) => {
    const name = String(issue.path[0])
    return `${name}: expected ${issue.message}, got ${shownValue(name, env[name])}`
  })
  const problems = [
    ...invalidSettings,
    ...requiredKeys(env),
    ...formerNames(env),
    ...sealTargetProblems(env),
    ...roleProblems(env),
    ...paymentProblems(env, hasScraperKey(env)),
    ...scraperProblems(env),
    ...gatewayProblems(env),
    ...consoleProblems(env),
  ]
  if (!parsed.success || problems.length > 0) throw new SettingsRefused(problems)
  return configOf(parsed.data)
}

const loopbackHosts = ['127.0.0.1', '::1', 'localhost']

/** A demo behind a proxy or with a public URL has clients elsewhere, although it listens on loopback. */
const isDemoOfThisMachine = (values: Values): boolean =>
  values.FAREBOX_DEMO === true &&
  [values.HOST, ...values.FAREBOX_GATEWAY_LISTEN].every((host) => loopbackHosts.includes(host)) &&
  values.FAREBOX_TRUSTED_PROXY === undefined &&
  values.FAREBOX_PUBLIC_URL === undefined

const configOf = (values: Values): Config => ({
  port: values.PORT,
  host: values.HOST,
  dataDir: values.FAREBOX_DATA,
  databaseUrl: values.DATABASE_URL ?? null,
  databaseOwnerUrl: values.DATABASE_OWNER_URL ?? null,
  databaseAuditorUrl: values.DATABASE_AUDITOR_URL ?? null,
  eventStoreUrl: values.EVENTSTORE_URL ?? null,
  logLevel: values.LOG_LEVEL,
  logFormat: values.FAREBOX_LOG_FORMAT,
  rates: values.FAREBOX_RATE_LIMIT
    ? {
        key: values.FAREBOX_RATE_KEY,
        address: values.FAREBOX_RATE_ADDRESS,
        scrapes: values.FAREBOX_RATE_SCRAPES,
      }
    : null,
  connections: { total: values.FAREBOX_CONNECTIONS, perAddress: values.FAREBOX_CONNECTIONS_ADDRESS },
  trustedProxies: values.FAREBOX_TRUSTED_PROXY ?? null,
  metricsToken: values.FAREBOX_METRICS_TOKEN ?? null,
  metricsPort: values.FAREBOX_METRICS_PORT ?? null,
  demo: values.FAREBOX_DEMO === true,
  masterKey: values.FAREBOX_MASTER_KEY ?? null,
  sealKey: values.FAREBOX_SEAL_KEY ?? null,
  accountingTimeZone: values.FAREBOX_ACCOUNTING_TIME_ZONE,
  seal: { events: values.FAREBOX_SEAL_EVENTS, seconds: values.FAREBOX_SEAL_SECONDS },
  sealTarget: sealTargetConfigOf(values),
  checkInvariants: values.FAREBOX_LAWS,
  auditor: values.FAREBOX_AUDITOR,
  auditAction: values.FAREBOX_AUDIT_ACTION,
  signing: values.FAREBOX_SIGNING,
  freeTools: freeToolConfigOf(values),
  gateway: gatewayConfigOf(values),
  freelist: freelistConfigOf(values),
  payments: paymentConfigOf(values, values.FAREBOX_DEMO === true),
  scrapers: scraperConfigOf(values),
  console: consoleConfigOf(values, values.FAREBOX_PUBLIC_URL ?? null),
  poolSize: values.FAREBOX_POOL_SIZE,
  statementTimeoutMs: values.FAREBOX_STATEMENT_TIMEOUT_MS,
  shutdownTimeoutMs: values.FAREBOX_SHUTDOWN_TIMEOUT_MS,
  shutdownDelayMs: values.FAREBOX_SHUTDOWN_DELAY_MS,
  webhookAllowLoopback: values.FAREBOX_WEBHOOK_ALLOW_LOOPBACK ?? isDemoOfThisMachine(values),
  gatewayAllowLoopback: values.FAREBOX_GATEWAY_ALLOW_LOOPBACK,
  clockOffsetMs: values.FAREBOX_CLOCK_OFFSET_MS,
  crashAt: values.FAREBOX_CRASH_AT ?? null,
})
