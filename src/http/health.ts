import { createHash, timingSafeEqual } from 'node:crypto'
import type { Registry } from 'prom-client'
import { z } from 'zod'
import { ApiError, refuseUnknownPath } from './errors.ts'
import type { ApiRequest, Route } from './route.ts'
import { route } from './route.ts'

/** One thing that must hold before orders can be taken. */
export type Probe = {
  /** E.g. `log`, `projections`, `clock`. */
  readonly name: string
  /** Null when it holds, else what is wrong. It may throw: that is wrong, too. */
  check(): Promise<string | null>
}

/** A probe that does not answer in this time fails. */
const probeTimeoutMs = 2_000

const outcome = async (probe: Probe): Promise<string> => {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<string>((resolve) => {
    timer = setTimeout(() => resolve(`no answer within ${probeTimeoutMs} ms`), probeTimeoutMs)
  })
  try {
    return (await Promise.race([probe.check(), late])) ?? 'ok'
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  } finally {
    clearTimeout(timer)
  }
}

const Checks = z.record(z.string(), z.string())

const healthz = route({
  method: 'GET',
  path: '/healthz',
  operationId: 'getHealth',
  summary: 'Whether the process lives',
  description: 'Answers as long as the process answers anything. Restart it when this fails.',
  tag: 'Service',
  access: 'public',
  writes: false,
  hidden: true,
  unlimited: true,
  responses: {
    200: { description: 'It lives.', body: z.object({ status: z.literal('ok') }), example: { status: 'ok' } },
  },
  errors: [],
  handler: async () => ({ status: 200, body: { status: 'ok' as const } }),
})

const readyz = (probes: readonly Probe[]): Route => {
  let asking: Promise<readonly string[]> | null = null
  /** Anybody may ask, so those who ask while a look is under way share it. */
  const ask = (): Promise<readonly string[]> => {
    asking ??= Promise.all(probes.map(outcome)).finally(() => {
      asking = null
    })
    return asking
  }
  return route({
    method: 'GET',
    path: '/readyz',
    operationId: 'getReadiness',
    summary: 'Whether orders can be placed',
    description:
      'Ready once the log takes writes and the projections have caught up; else it names what is not.',
    tag: 'Service',
    access: 'public',
    writes: false,
    hidden: true,
    unlimited: true,
    responses: {
      200: {
        description: 'Orders can be placed.',
        body: z.object({ status: z.literal('ready'), checks: Checks }),
        example: { status: 'ready', checks: { log: 'ok', projections: 'ok' } },
      },
    },
    errors: ['overloaded'],
    async handler() {
      const outcomes = await ask()
      const checks = Object.fromEntries(probes.map(({ name }, at) => [name, outcomes[at] ?? '']))
      const failing = Object.keys(checks).filter((name) => checks[name] !== 'ok')
      if (failing.length > 0)
        throw new ApiError(
          'overloaded',
          `not ready: ${failing.join(', ')}`,
          { checks },
          { 'retry-after': '1' },
        )
      return { status: 200, body: { status: 'ready' as const, checks } }
    },
  })
}

export type MetricsAccess = {
  readonly registry: Registry
  /** A bearer token; null: only a peer on this machine may read, and none through a proxy. */
  readonly token: string | null
}

const digest = (text: string): Buffer => createHash('sha256').update(text).digest()

const isLoopback = (address: string): boolean => address === '::1' || address.startsWith('127.')

const mayRead = (token: string | null, { address, headers }: ApiRequest): boolean => {
  if (token === null)
    return isLoopback(address) && headers['x-forwarded-for'] === undefined && headers.forwarded === undefined
  return timingSafeEqual(digest(headers.authorization ?? ''), digest(`Bearer ${token}`))
}

/** Route labels and figures of money tell a stranger too much: without a token only this machine reads them. */
const metrics = ({ registry, token }: MetricsAccess): Route =>
  route({
    method: 'GET',
    path: '/metrics',
    operationId: 'getMetrics',
    summary: 'Measurements for Prometheus',
    description: 'To callers on this machine, or with the token of FAREBOX_METRICS_TOKEN.',
    tag: 'Service',
    access: 'public',
    writes: false,
    hidden: true,
    unlimited: true,
    responses: { 200: { description: 'The measurements.', text: { mediaType: 'text/plain', example: '' } } },
    errors: ['not_found'],
    async handler(request) {
      if (!mayRead(token, request)) throw refuseUnknownPath()
      return {
        status: 200,
        text: await registry.metrics(),
        headers: { 'content-type': registry.contentType },
      }
    },
  })

/** `/healthz`, `/readyz` and `/metrics`: for the operator's machines, outside the interface description. */
export const healthRoutes = (probes: readonly Probe[], access: MetricsAccess): readonly Route[] => [
  healthz,
  readyz(probes),
  metrics(access),
]
