import { z } from 'zod'
import { anonymities, checkErrors, protocols } from '../../domain/free-list/endpoint.ts'
import { namedEnum } from '../../platform/http/named-enum.ts'
import type { CheckResult, IpFacts } from '../free-list/index.ts'

/** Error codes of a check result: the errors of checks, and an unresolvable proxy name. */
export const publicErrors = [...checkErrors, 'host_not_found'] as const

export const ProxyCheckResult = z
  .object({
    proxy: z.string().meta({ description: 'The proxy as `host:port`, without a password.' }),
    alive: z.boolean(),
    protocols: z
      .array(namedEnum('FreeProxyProtocol', protocols))
      .meta({ description: 'The protocols that worked through the proxy.' }),
    anonymity: namedEnum('FreeProxyAnonymity', anonymities).nullable(),
    exit_ip: z
      .string()
      .nullable()
      .meta({ description: 'The exit address: the address that targets see. Null: unknown.' }),
    country_code: z.string().nullable().meta({
      description:
        'The country of the exit address, as an ISO 3166-1 alpha-2 code in lower case. Null: unknown.',
    }),
    city: z.string().nullable(),
    asn: z.int().nullable(),
    asn_org: z.string().nullable(),
    intercepts_tls: z.boolean().nullable().meta({
      description:
        'True: the proxy replaces the TLS certificates of targets with its own certificate. Null: unknown.',
    }),
    latency_ms: z
      .int()
      .nullable()
      .meta({ description: 'The time of a complete request through the fastest protocol, in milliseconds.' }),
    connect_ms: z.int().nullable(),
    error: z
      .enum(publicErrors)
      .nullable()
      .meta({ description: 'The code of the error. Null: the proxy works.' }),
    detail: z
      .string()
      .nullable()
      .meta({ description: 'A description of the error for people. Null: the proxy works.' }),
    checked_at: z.string().meta({ format: 'date-time' }),
  })
  .meta({ id: 'FreeProxyCheck' })

export type ProxyCheckResult = z.output<typeof ProxyCheckResult>

export const resultExample: ProxyCheckResult = {
  proxy: '8.8.8.8:8080',
  alive: true,
  protocols: ['http', 'https'],
  anonymity: 'elite',
  exit_ip: '8.8.8.8',
  country_code: 'us',
  city: 'Mountain View',
  asn: 15169,
  asn_org: 'Google LLC',
  intercepts_tls: false,
  latency_ms: 412,
  connect_ms: 120,
  error: null,
  detail: null,
  checked_at: '2026-11-21T02:31:00.000Z',
}

/** @param facts of the exit address */
export const toCheckResult = (
  proxy: string,
  checkResult: CheckResult,
  facts: IpFacts,
  checkedAt: string,
): ProxyCheckResult => ({
  proxy,
  alive: checkResult.alive,
  protocols: [...checkResult.protocols],
  anonymity: checkResult.anonymity,
  exit_ip: checkResult.exitIp,
  country_code: facts.countryCode,
  city: facts.city,
  asn: facts.asn,
  asn_org: facts.asnOrg,
  intercepts_tls: checkResult.interceptsTls,
  latency_ms: checkResult.latencyMs,
  connect_ms: checkResult.connectMs,
  error: checkResult.error,
  detail: checkResult.detail,
  checked_at: checkedAt,
})

export const hostNotFoundResult = (proxy: string, checkedAt: string): ProxyCheckResult => ({
  proxy,
  alive: false,
  protocols: [],
  anonymity: null,
  exit_ip: null,
  country_code: null,
  city: null,
  asn: null,
  asn_org: null,
  intercepts_tls: null,
  latency_ms: null,
  connect_ms: null,
  error: 'host_not_found',
  detail: 'the name of the proxy has no address',
  checked_at: checkedAt,
})

const Counts = z.record(z.string(), z.int())

export const CheckSummary = z
  .object({
    checked: z.int(),
    alive: z.int(),
    countries: Counts.meta({ description: 'The number of working proxies by exit country.' }),
    anonymity: Counts,
    networks: Counts.meta({
      description:
        'The five networks with the most exit addresses, and the number of working proxies in each.',
    }),
  })
  .meta({ id: 'FreeProxyCheckSummary' })

export type CheckSummary = z.output<typeof CheckSummary>

const maxNetworks = 5

/** The count of each value, the most frequent first. */
const countByValue = (values: readonly (string | null)[], limit = values.length): Record<string, number> => {
  const counts = new Map<string, number>()
  for (const value of values) if (value !== null) counts.set(value, (counts.get(value) ?? 0) + 1)
  return Object.fromEntries([...counts].sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1)).slice(0, limit))
}

export const summaryOf = (results: readonly ProxyCheckResult[]): CheckSummary => {
  const alive = results.filter((result) => result.alive)
  return {
    checked: results.length,
    alive: alive.length,
    countries: countByValue(alive.map((result) => result.country_code)),
    anonymity: countByValue(alive.map((result) => result.anonymity)),
    networks: countByValue(
      alive.map((result) => result.asn_org),
      maxNetworks,
    ),
  }
}
