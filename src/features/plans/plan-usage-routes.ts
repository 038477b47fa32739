import type pg from 'pg'
import { z } from 'zod'
import { remedyOf } from '../../domain/exits/connection-failures.ts'
import type { Clock } from '../../kernel/clock.ts'
import { refuse } from '../../platform/http/errors.ts'
import { namedEnum } from '../../platform/http/named-enum.ts'
import { inRange, instantQuery, wordQuery } from '../../platform/http/query.ts'
import { type Route, route } from '../../platform/http/route.ts'
import type { FindPlanDependencies } from './plan-record.ts'
import { createFindPlan } from './plan-record.ts'
import type { Range } from './traffic-records.ts'
import { type Bucket, buckets, readUsage, setCountsHosts } from './traffic-usage.ts'

const hourMs = 3_600_000
const dayMs = 24 * hourMs

/** The default and the longest range of an answer, milliseconds. */
const spans: Readonly<Record<Bucket, { readonly usual: number; readonly longest: number }>> = {
  hour: { usual: dayMs, longest: 31 * dayMs },
  day: { usual: 30 * dayMs, longest: 366 * dayMs },
}

const shownHosts = 20
const instant = z.string().meta({ format: 'date-time' })

const PlanUsage = z
  .object({
    planId: z.string(),
    unit: z.literal('bytes'),
    bucket: namedEnum('UsageBucket', buckets),
    from: instant,
    to: instant,
    buckets: z
      .array(
        z.object({
          ts: instant.meta({ description: 'The start of the hour or day, in UTC.' }),
          bytesUp: z.int().meta({ description: 'The number of bytes from the client to its targets.' }),
          bytesDown: z.int(),
          connections: z.int(),
          failures: z.int(),
        }),
      )
      .meta({ description: 'The hours or days with traffic or connections, oldest first.' }),
    failures: z.array(z.object({ reason: z.string(), count: z.int(), howToFix: z.string() })).meta({
      description: 'The number of failures by the reason in `X-Proxy-Error`, the most frequent reason first.',
    }),
    hosts: z
      .array(z.object({ host: z.string(), bytes: z.int(), connections: z.int() }))
      .meta({ description: `The ${shownHosts} hosts with the most traffic, over whole days (UTC).` }),
    countsHosts: z
      .boolean()
      .meta({ description: 'True: the gateway counts the hosts of this plan. PATCH changes the setting.' }),
  })
  .meta({ id: 'PlanUsage' })

const example: z.infer<typeof PlanUsage> = {
  planId: 'pln_7d0f8f2e2f0b5a7c9a3c1f8d2b6e4a10',
  unit: 'bytes',
  bucket: 'hour',
  from: '2026-11-21T00:00:00.000Z',
  to: '2026-11-22T00:00:00.000Z',
  buckets: [
    { ts: '2026-11-21T02:00:00.000Z', bytesUp: 48_200, bytesDown: 7_140_000, connections: 310, failures: 4 },
  ],
  failures: [{ reason: 'target_timeout', count: 4, howToFix: remedyOf('target_timeout') }],
  hosts: [{ host: 'example.com', bytes: 7_100_000, connections: 290 }],
  countsHosts: true,
}

const params = z.object({ id: z.string() })
const examples = { params: { id: example.planId } }

/** The usage of a plan: statistics of the gateway, by hour or day. */
export const planUsageRoutes = (
  dependencies: FindPlanDependencies & {
    readonly pool: pg.Pool
    readonly clock: Clock
  },
): readonly Route[] => {
  const { pool, clock } = dependencies

  const planOf = createFindPlan(dependencies)

  const rangeOf = (
    bucket: Bucket,
    { from, to }: { from?: number | undefined; to?: number | undefined },
  ): Range => {
    const { usual, longest } = spans[bucket]
    const toMs = inRange(to ?? clock())
    const fromMs = inRange(from ?? toMs - usual)
    if (fromMs >= toMs)
      throw refuse('invalid_parameter', 'to must be later than from: from is included, to is not')
    if (toMs - fromMs > longest)
      throw refuse(
        'invalid_parameter',
        `from and to may be ${longest / dayMs} days apart at most for bucket ${bucket}`,
      )
    return { fromMs, toMs }
  }

  const usageOf = async (
    planId: string,
    range: Range,
    bucket: Bucket,
  ): Promise<z.infer<typeof PlanUsage>> => {
    const usage = await readUsage(pool, planId, range, { bucket, hosts: shownHosts })
    return {
      planId,
      unit: 'bytes',
      bucket,
      from: new Date(range.fromMs).toISOString(),
      to: new Date(range.toMs).toISOString(),
      buckets: [...usage.buckets],
      failures: [...usage.failures],
      hosts: [...usage.hosts],
      countsHosts: usage.countsHosts,
    }
  }

  return [
    route({
      method: 'GET',
      path: '/api/v1/plans/{id}/usage',
      operationId: 'getPlanUsage',
      summary: 'Read the usage of a plan',
      description:
        "The traffic, connections and failures of a plan's proxy lines, as the gateway counted them. The last seconds can be missing. The charged bytes are in the plan (`bytesUsed`).",
      tag: 'Plans',
      access: 'buy',
      writes: false,
      customer: 'limits',
      params,
      examples,
      query: z.object({
        bucket: wordQuery(
          buckets,
          'The length of a period: an hour or a day. Default: an hour.',
          'UsageBucket',
        ).optional(),
        from: instantQuery('Only usage at or after this instant or day (UTC).').optional(),
        to: instantQuery('Only usage before this instant or day (UTC). Default: until now.').optional(),
      }),
      responses: { 200: { description: 'The usage of the plan.', body: PlanUsage, example } },
      errors: ['not_found', 'invalid_parameter'],
      handler: async ({ scope, params: { id }, query, after }) => {
        const { bucket = 'hour' } = query
        const range = rangeOf(bucket, query)
        return { status: 200, body: await usageOf((await planOf(scope, id, after)).planId, range, bucket) }
      },
    }),
    route({
      method: 'PATCH',
      path: '/api/v1/plans/{id}/usage',
      operationId: 'updatePlanUsage',
      summary: 'Set the counting of hosts',
      description:
        'With `countsHosts` false, the gateway stops counting the hosts of this plan, and the existing counts are deleted.',
      tag: 'Plans',
      access: 'buy',
      writes: true,
      customer: 'limits',
      params,
      body: z.strictObject({ countsHosts: z.boolean() }),
      examples: { ...examples, body: { countsHosts: false } },
      responses: { 200: { description: 'The usage of the last day.', body: PlanUsage, example } },
      errors: ['not_found'],
      handler: async ({ scope, params: { id }, body: { countsHosts }, after }) => {
        const { planId } = await planOf(scope, id, after)
        await setCountsHosts(pool, planId, countsHosts)
        return { status: 200, body: await usageOf(planId, rangeOf('hour', {}), 'hour') }
      },
    }),
  ]
}
