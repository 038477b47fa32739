import type { z } from 'zod'
import { addresses, oneOf, proxies, text, url, whole } from '../platform/cli/setting-forms.ts'

const hostRecordings = ['full', 'domain', 'none'] as const

/** How much of a target host the traffic records contain: all of it, the registered domain, or nothing. */
export type HostRecording = (typeof hostRecordings)[number]

/** The settings of the proxy gateway, as `farebox settings` prints them. */
export const gatewaySettings = {
  FAREBOX_GATEWAY_HOST: text('a host name or an address')
    .prefault('127.0.0.1')
    .describe('The host of the proxy gateway in the connection data of plans.'),
  FAREBOX_GATEWAY_PORT: whole(0, 65_535)
    .prefault('9000')
    .describe(
      'The port of the proxy gateway, for HTTP and SOCKS5; 0 chooses a free one. Without real payments the default falls back to a free port if it is in use.',
    ),
  FAREBOX_GATEWAY_LISTEN: addresses
    .prefault('127.0.0.1')
    .describe(
      'The listening addresses of the gateway, separated by commas; 0.0.0.0 and :: are every interface. It also listens on rented addresses of this machine.',
    ),
  FAREBOX_GATEWAY_WORKERS: whole(0, 64)
    .prefault('1')
    .describe('The number of gateway processes, which share its port; 0 starts none with the service.'),
  FAREBOX_GATEWAY_TLS_PORT: whole(1, 65_535)
    .optional()
    .describe('A second port of the gateway, with TLS (an HTTPS proxy).'),
  FAREBOX_GATEWAY_TLS_CERT: text('a file of PEM certificates')
    .optional()
    .describe('The certificate of that port, with its chain.'),
  FAREBOX_GATEWAY_TLS_KEY: text('a file with a PEM key').optional().describe('The key of that certificate.'),
  FAREBOX_GATEWAY_TRUSTED_PROXY: proxies
    .optional()
    .describe(
      'The balancers in front of the gateway. Each of their connections must begin with a PROXY header (version 1 or 2), which has the address of the client.',
    ),
  FAREBOX_GATEWAY_POLICY: text('a JSON file')
    .optional()
    .describe(
      'Ports and hosts that lines never reach: {"blockedPorts": [25], "blockedHosts": ["example.com"]}.',
    ),
  FAREBOX_GATEWAY_CHECK_URL: url(['http:'], 'http://check.example.com/ip')
    .optional()
    .describe(
      "The target for checks of rented addresses: your http address that answers 200 with the caller's address as text. Default: a host of the sandbox, if it runs; else there are no checks.",
    ),
  FAREBOX_GATEWAY_CONNECTIONS: whole(1, 1_000_000)
    .prefault('2000')
    .describe('The maximum number of open connections of a plan in one gateway process.'),
  FAREBOX_GATEWAY_IDLE_TIMEOUT_MS: whole(1_000, 86_400_000)
    .prefault('3600000')
    .describe('The time in milliseconds after which a tunnel without traffic is closed.'),
  FAREBOX_TRAFFIC_RECORDS_DAYS: whole(0, 90)
    .prefault('7')
    .describe(
      'For how many days each finished connection and request of a plan is recorded for its owner, in addition to the current day; 0 records none.',
    ),
  FAREBOX_TRAFFIC_RECORDS_HOSTS: oneOf(hostRecordings)
    .prefault('full')
    .describe(
      'How much of the target host these records contain: full is the host name and port, domain is the registered domain (example.com for www.example.com) and port, none omits both.',
    ),
  FAREBOX_GATEWAY_METRICS_PORT: whole(1, 65_000)
    .optional()
    .describe(
      "A port of 127.0.0.1 with the gateway's /metrics; the second process has the next one, and so on.",
    ),
} as const

type Values = z.output<z.ZodObject<typeof gatewaySettings>>

const tlsSettings = [
  'FAREBOX_GATEWAY_TLS_PORT',
  'FAREBOX_GATEWAY_TLS_CERT',
  'FAREBOX_GATEWAY_TLS_KEY',
] as const

/** Errors of settings that must be set together. */
export const gatewayProblems = (env: NodeJS.ProcessEnv): readonly string[] => {
  const presentSettings = tlsSettings.filter((name) => env[name] !== undefined)
  if (presentSettings.length === 0 || presentSettings.length === tlsSettings.length) return []
  const missing = tlsSettings.filter((name) => env[name] === undefined)
  return [`${missing.join(' and ')}: expected with ${presentSettings.join(' and ')}, got nothing`]
}

export type GatewayConfig = ReturnType<typeof gatewayConfigOf>

export const gatewayConfigOf = (values: Values) => ({
  /** The host that plans show as their connection. */
  host: values.FAREBOX_GATEWAY_HOST,
  port: values.FAREBOX_GATEWAY_PORT,
  /** Addresses to listen on, at least one. */
  listen: values.FAREBOX_GATEWAY_LISTEN,
  /** Processes; 0 runs none here. */
  workers: values.FAREBOX_GATEWAY_WORKERS,
  /** Paths of PEM files; null: no TLS. */
  tls:
    values.FAREBOX_GATEWAY_TLS_PORT === undefined
      ? null
      : {
          port: values.FAREBOX_GATEWAY_TLS_PORT,
          cert: values.FAREBOX_GATEWAY_TLS_CERT ?? '',
          key: values.FAREBOX_GATEWAY_TLS_KEY ?? '',
        },
  balancers: values.FAREBOX_GATEWAY_TRUSTED_PROXY ?? null,
  policy: values.FAREBOX_GATEWAY_POLICY ?? null,
  checkUrl: values.FAREBOX_GATEWAY_CHECK_URL === undefined ? null : new URL(values.FAREBOX_GATEWAY_CHECK_URL),
  planConnections: values.FAREBOX_GATEWAY_CONNECTIONS,
  idleTimeoutMs: values.FAREBOX_GATEWAY_IDLE_TIMEOUT_MS,
  records: {
    /** 0: nothing is recorded. */
    days: values.FAREBOX_TRAFFIC_RECORDS_DAYS,
    hosts: values.FAREBOX_TRAFFIC_RECORDS_HOSTS,
  },
  metricsPort: values.FAREBOX_GATEWAY_METRICS_PORT ?? null,
})
