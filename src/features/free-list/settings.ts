import type { z } from 'zod'
import { onOff, ports, rate, text, whole } from '../../platform/cli/setting-forms.ts'
import type { Rate } from '../../platform/http/rate-limiter.ts'
import type { JudgeAddress } from './judge-access.ts'

/** The settings of the checker of free proxies, as `farebox settings` prints them. */
export const freelistSettings = {
  FAREBOX_FREELIST_CHECKER: onOff
    .prefault('on')
    .describe(
      'on: a separate process reads feeds of free proxies and checks them. off: no such process here.',
    ),
  FAREBOX_FREELIST_SOURCES: text('a JSON file')
    .optional()
    .describe(
      'The feeds, in the format of docs/operations/free-list.md. Default: only the feeds of a sandbox.',
    ),
  FAREBOX_FREELIST_JUDGE_HOST: text('a host name or an IPv4 address')
    .regex(/^[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$/, 'a host name or an IPv4 address')
    .optional()
    .describe(
      "The public host of this service's judge. Without it no proxy is checked, except in a sandbox, whose judge is on loopback.",
    ),
  FAREBOX_FREELIST_JUDGE_PORTS: ports
    .prefault('80/443')
    .describe('The public ports of the judge: plain and TLS. Many proxies open tunnels to 443 only.'),
  FAREBOX_FREELIST_JUDGE_LISTEN: text('an address')
    .prefault('0.0.0.0')
    .describe("The listening address of the judge, in the checker's process."),
  FAREBOX_FREELIST_JUDGE_LISTEN_PORTS: ports
    .optional()
    .describe('Its listening ports, if the public ports are forwarded to others.'),
  FAREBOX_FREELIST_SOCKETS: whole(50, 60_000)
    .prefault('8000')
    .describe(
      "The maximum number of open sockets of the checker; fewer if the process's file limit is lower.",
    ),
  FAREBOX_FREELIST_CPU_PERCENT: whole(1, 100)
    .prefault('25')
    .describe('The checker starts no checks while it has used more than this share of a core.'),
  FAREBOX_FREELIST_CONNECT_TIMEOUT_MS: whole(100, 60_000)
    .prefault('2000')
    .describe('The time limit for connecting to an endpoint.'),
  FAREBOX_FREELIST_TIMEOUT_MS: whole(200, 120_000)
    .prefault('8000')
    .describe('The time limit for a complete check of an endpoint.'),
  FAREBOX_FREELIST_ENDPOINTS: whole(1, 10_000_000)
    .prefault('1000000')
    .describe('The maximum number of stored endpoints: feeds add none beyond it. No endpoint is removed.'),
  FAREBOX_FREELIST_METRICS_PORT: whole(1, 65_535)
    .optional()
    .describe("A port of 127.0.0.1 with the checker's /metrics."),
} as const

export type FreelistConfig = {
  readonly checker: boolean
  /** The path of a JSON file; null: none. */
  readonly sources: string | null
  /** Null: none is configured. */
  readonly judge: { readonly address: JudgeAddress; readonly listen: JudgeAddress } | null
  readonly sockets: number
  /** Share of one core, from 0 to 1. */
  readonly cpuShare: number
  readonly connectTimeoutMs: number
  readonly timeoutMs: number
  readonly endpoints: number
  /** Null: none. */
  readonly metricsPort: number | null
}

type Values = z.output<z.ZodObject<typeof freelistSettings>>

export const freelistConfigOf = (values: Values): FreelistConfig => {
  const host = values.FAREBOX_FREELIST_JUDGE_HOST
  const publicPorts = values.FAREBOX_FREELIST_JUDGE_PORTS
  const listenPorts = values.FAREBOX_FREELIST_JUDGE_LISTEN_PORTS ?? publicPorts
  return {
    checker: values.FAREBOX_FREELIST_CHECKER,
    sources: values.FAREBOX_FREELIST_SOURCES ?? null,
    judge:
      host === undefined
        ? null
        : {
            address: { host, httpPort: publicPorts[0], tlsPort: publicPorts[1] },
            listen: {
              host: values.FAREBOX_FREELIST_JUDGE_LISTEN,
              httpPort: listenPorts[0],
              tlsPort: listenPorts[1],
            },
          },
    sockets: values.FAREBOX_FREELIST_SOCKETS,
    cpuShare: values.FAREBOX_FREELIST_CPU_PERCENT / 100,
    connectTimeoutMs: values.FAREBOX_FREELIST_CONNECT_TIMEOUT_MS,
    timeoutMs: values.FAREBOX_FREELIST_TIMEOUT_MS,
    endpoints: values.FAREBOX_FREELIST_ENDPOINTS,
    metricsPort: values.FAREBOX_FREELIST_METRICS_PORT ?? null,
  }
}

/** The settings of the free tools, as `farebox settings` prints them. */
export const freeToolSettings = {
  FAREBOX_RATE_LIST: rate
    .prefault('120/2')
    .describe(
      'Requests of one client address for the free proxy list and the networks: burst, and rate per second.',
    ),
  FAREBOX_RATE_LOOKUP: rate
    .prefault('120/5')
    .describe('Look-ups of addresses by one client address: burst, and rate per second.'),
  FAREBOX_RATE_CHECK: rate
    .prefault('40/1')
    .describe('Proxy checks for one client address: burst, and rate per second.'),
} as const

export type FreeToolConfig = {
  readonly list: Rate
  readonly lookup: Rate
  readonly check: Rate
}

type ToolValues = z.output<z.ZodObject<typeof freeToolSettings>>

export const freeToolConfigOf = (values: ToolValues): FreeToolConfig => ({
  list: values.FAREBOX_RATE_LIST,
  lookup: values.FAREBOX_RATE_LOOKUP,
  check: values.FAREBOX_RATE_CHECK,
})

export type CheckingConfig = {
  readonly freelist: FreelistConfig
  readonly payments: { readonly sandbox: object | null }
}

/** Whether only sandbox proxies are checked, with a judge on loopback. */
export const isSandboxed = ({ freelist, payments }: CheckingConfig): boolean =>
  freelist.judge === null && payments.sandbox !== null
