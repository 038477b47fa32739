import type { Registry } from 'prom-client'
import { z } from 'zod'
import { withTimeout } from '../../kernel/every.ts'
import type { OperatorAccess } from './auth.ts'
import { ApiError, refuseUnknownPath } from './errors.ts'
import { type Route, route } from './route.ts'

/** A condition for taking orders. */
export type Probe = {
  /** E.g. `log`, `projections`, `clock`. */
  readonly name: string
  /** Null if the condition is met, else the problem. A thrown error counts as a problem. */
  check(): Promise<string | null>
  /** True: the result is reported in `notes` of `/readyz` and does not affect readiness. */
  readonly note?: true
  /** The part of the service that does not work while the probe fails; default: orders. */
  readonly part?: 'gateway'
}

/** A probe that does not answer in this time fails, milliseconds. */
const probeTimeoutMs = 2_000

/** Runs that have not ended. A probe that waits is not started again. */
const running = new WeakMap<Probe, Promise<string | null>>()

/** Returns `ok` or the problem. */
export const probeOutcome = async (probe: Probe): Promise<string> => {
  const run = running.get(probe) ?? probe.check().finally(() => running.delete(probe))
  running.set(probe, run)
  const noAnswer = () => new Error(`no answer within ${probeTimeoutMs} ms`)
  try {
    return (await withTimeout(run, probeTimeoutMs, noAnswer)) ?? 'ok'
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
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

const readyz = (probes: readonly Probe[], mayRead: OperatorAccess): Route =>
  route({
    method: 'GET',
    path: '/readyz',
    operationId: 'getReadiness',
    summary: 'Whether orders can be placed',
    description:
      'Ready once the log takes writes and the projections have caught up. With the token of FAREBOX_METRICS_TOKEN, and on the port of FAREBOX_METRICS_PORT, it names what is not.',
    tag: 'Service',
    access: 'public',
    writes: false,
    hidden: true,
    unlimited: true,
    responses: {
      200: {
        description: 'Orders can be placed.',
        body: z.object({ status: z.literal('ready'), checks: Checks.optional(), notes: Checks.optional() }),
        example: { status: 'ready' },
      },
    },
    errors: ['overloaded'],
    async handler({ headers }) {
      const outcomes = await Promise.all(probes.map(probeOutcome))
      const resultsOf = (notes: boolean): Record<string, string> =>
        Object.fromEntries(
          probes.flatMap(({ name, note }, at) =>
            (note ?? false) === notes ? [[name, outcomes[at] ?? '']] : [],
          ),
        )
      const [checks, notes] = [resultsOf(false), resultsOf(true)]
      const failing = Object.keys(checks).filter((name) => checks[name] !== 'ok')
      // The problems name internal hosts and ports.
      const notesPart = Object.keys(notes).length > 0 ? { notes } : {}
      const detail = mayRead(headers) ? { checks, ...notesPart } : {}
      if (failing.length > 0)
        throw new ApiError(
          'overloaded',
          mayRead(headers) ? `not ready: ${failing.join(', ')}` : 'not ready',
          detail,
          { 'retry-after': '1' },
        )
      return { status: 200, body: { status: 'ready' as const, ...detail } }
    },
  })

type InternalEndpoints = { readonly registry: Registry; readonly mayRead: OperatorAccess }

/** For the operator only: route labels and money figures must not be public. */
const metrics = ({ registry, mayRead }: InternalEndpoints): Route =>
  route({
    method: 'GET',
    path: '/metrics',
    operationId: 'getMetrics',
    summary: 'Measurements for Prometheus',
    description: 'With the token of FAREBOX_METRICS_TOKEN, or on the port of FAREBOX_METRICS_PORT.',
    tag: 'Service',
    access: 'public',
    writes: false,
    hidden: true,
    unlimited: true,
    responses: { 200: { description: 'The measurements.', text: { mediaType: 'text/plain', example: '' } } },
    errors: ['not_found'],
    async handler({ headers }) {
      if (!mayRead(headers)) throw refuseUnknownPath()
      return {
        status: 200,
        text: await registry.metrics(),
        headers: { 'content-type': registry.contentType },
      }
    },
  })

/** `/healthz`, `/readyz` and `/metrics`: for the operator's machines, outside the interface description. */
export const healthRoutes = (probes: readonly Probe[], endpoints: InternalEndpoints): readonly Route[] => [
  healthz,
  readyz(probes, endpoints.mayRead),
  metrics(endpoints),
]
