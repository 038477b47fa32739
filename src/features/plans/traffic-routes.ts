import type pg from 'pg'
import { z } from 'zod'
import type { Clock } from '../../kernel/clock.ts'
import { isoTime } from '../../kernel/clock.ts'
import { refuse } from '../../platform/http/errors.ts'
import { namedEnum } from '../../platform/http/named-enum.ts'
import { inRange, instantQuery, integerQuery, wordQuery } from '../../platform/http/query.ts'
import { type Route, route } from '../../platform/http/route.ts'
import { createFindPlan, type FindPlanDependencies } from './plan-record.ts'
import { trafficGroups } from './traffic-groups.ts'
import {
  cursorOf,
  hourRange,
  noError,
  parseCursor,
  type RequestPlace,
  readRequests,
  readTraffic,
} from './traffic-records.ts'

const dayMs = 86_400_000
const longestMs = 92 * dayMs
const usualLimit = 50
const maxLimit = 500

const instant = z.string().meta({ format: 'date-time' })

const GatewayRequest = z
  .object({
    requestId: z.string().meta({ description: 'The id that the gateway sent in `X-Proxy-Request-Id`.' }),
    endedAt: instant,
    protocol: z
      .enum(['http', 'connect', 'socks5', 'udp'])
      .meta({ description: 'How the client used the gateway.' }),
    line: z.string().nullable().meta({
      description: 'The username of the line. Null: the address of the client is on the whitelist.',
    }),
    host: z.string().nullable().meta({
      description: 'The target host. Null: there was none, or hosts are not recorded.',
    }),
    port: z.int().nullable(),
    country: z.string().nullable().meta({
      description: 'The country of the exit, in two letters. Null: no exit was connected, or it is unknown.',
    }),
    bytesUp: z.int().meta({ description: 'The number of metered bytes from the client to the target.' }),
    bytesDown: z.int().meta({ description: 'The number of metered bytes from the target to the client.' }),
    durationMs: z.int().meta({ description: 'The duration in milliseconds.' }),
    reason: z.string().nullable().meta({
      description:
        'The reason of a failure, as in `X-Proxy-Error`. Null: the request ended without an error. `in_progress`: this is the part of a running connection within an hour that is over.',
    }),
  })
  .meta({ id: 'GatewayRequest' })

const GatewayRequestList = z
  .object({
    planId: z.string(),
    requests: z.array(GatewayRequest),
    nextCursor: z.string().nullable().meta({
      description: 'The cursor of the next page. Null: this is the last page.',
    }),
  })
  .meta({ id: 'GatewayRequestList' })

const sum = {
  bytesUp: z.int(),
  bytesDown: z.int(),
  requests: z.int().meta({ description: 'The number of finished connections and requests.' }),
  failures: z.int().meta({ description: 'The number of those that ended with an error.' }),
}

const PlanTraffic = z
  .object({
    planId: z.string(),
    unit: z.literal('bytes'),
    groupBy: namedEnum('TrafficGrouping', trafficGroups),
    from: instant.meta({ description: 'The start of the first hour.' }),
    to: instant.meta({ description: 'The end of the last hour.' }),
    meteredBytes: z.int().meta({
      description:
        'The metered bytes of these hours. They are exactly the sum of `groups`, `otherGroups`, `merged` and `unrecordedBytes`.',
    }),
    groups: z
      .array(
        z.object({
          value: z.string().nullable().meta({
            description: 'The host, country, hour or line. Null: the records have none.',
          }),
          ...sum,
        }),
      )
      .meta({ description: 'The groups with the most bytes first; hours are in their order.' }),
    otherGroups: z.object(sum).meta({ description: 'The sum of all groups that are not shown.' }),
    merged: z.object(sum).meta({
      description: 'Requests that were recorded without details, because there were too many.',
    }),
    unrecordedBytes: z.int().meta({
      description:
        'Metered bytes of connections that are still open, and bytes whose record was lost with a gateway process. Negative: bytes were recorded that a gateway could not meter.',
    }),
    reasons: z
      .array(z.object({ reason: z.string(), count: z.int() }))
      .meta({ description: 'Recorded failures by their reason, the most frequent reason first.' }),
  })
  .meta({ id: 'PlanTraffic' })

const planId = 'pln_7d0f8f2e2f0b5a7c9a3c1f8d2b6e4a10'

const requestExample: z.infer<typeof GatewayRequest> = {
  requestId: 'req_5f0c2a9e4b7d4c1f8a6e3d2b1c0f9e8d',
  endedAt: '2026-11-21T02:14:09.120Z',
  protocol: 'connect',
  line: 'u3k9x2m1-country-us',
  host: 'www.example.com',
  port: 443,
  country: 'us',
  bytesUp: 1_824,
  bytesDown: 48_211,
  durationMs: 903,
  reason: null,
}

const trafficExample: z.infer<typeof PlanTraffic> = {
  planId,
  unit: 'bytes',
  groupBy: 'host',
  from: '2026-11-21T00:00:00.000Z',
  to: '2026-11-22T00:00:00.000Z',
  meteredBytes: 7_188_200,
  groups: [{ value: 'www.example.com', bytesUp: 48_200, bytesDown: 7_100_000, requests: 310, failures: 4 }],
  otherGroups: { bytesUp: 0, bytesDown: 0, requests: 0, failures: 0 },
  merged: { bytesUp: 0, bytesDown: 0, requests: 0, failures: 0 },
  unrecordedBytes: 40_000,
  reasons: [{ reason: 'target_timeout', count: 4 }],
}

/** @throws invalid_parameter */
const placeOf = (cursor: string): RequestPlace => {
  const place = parseCursor(cursor)
  if (place === null) throw refuse('invalid_parameter', 'cursor: send the nextCursor of an earlier answer')
  return place
}

const params = z.object({ id: z.string() })
const examples = { params: { id: planId } }
const since = instantQuery('Only traffic at or after this instant or day (UTC).').optional()
const until = instantQuery('Only traffic before this instant or day (UTC). Default: until now.').optional()

/** What used the traffic of a plan: the records of finished connections and requests, and their sums. */
export const trafficRoutes = (
  dependencies: FindPlanDependencies & { readonly pool: pg.Pool; readonly clock: Clock },
): readonly Route[] => {
  const { pool, clock } = dependencies
  const planOf = createFindPlan(dependencies)
  return [
    route({
      method: 'GET',
      path: '/api/v1/plans/{id}/requests',
      operationId: 'listPlanRequests',
      summary: 'List the requests of a plan',
      description:
        "The finished connections and requests of a plan's proxy lines, newest first, as the gateway recorded them. The last seconds can be missing. The records are deleted after some days; the operator chooses how many.",
      tag: 'Plans',
      access: 'buy',
      writes: false,
      customer: 'limits',
      params,
      examples,
      query: z.object({
        host: z.string().max(253).optional().meta({ description: 'Only requests to this recorded host.' }),
        country: z
          .string()
          .regex(/^[A-Za-z]{2}$/)
          .optional()
          .meta({ description: 'Only requests through an exit in this country, in two letters such as us.' }),
        reason: z
          .string()
          .max(100)
          .optional()
          .meta({
            description: `Only requests that ended with this reason; ${noError} is every request without an error.`,
          }),
        request_id: z.string().max(100).optional().meta({ description: 'Only the request with this id.' }),
        since,
        until,
        limit: integerQuery({
          min: 1,
          max: maxLimit,
          description: `The number of requests in the answer, at most ${maxLimit}. Default: ${usualLimit}.`,
        }).optional(),
        cursor: z.string().max(300).optional().meta({
          description: 'The `nextCursor` of the previous page. Default: the newest requests.',
        }),
      }),
      responses: {
        200: {
          description: 'A page of requests.',
          body: GatewayRequestList,
          example: { planId, requests: [requestExample], nextCursor: null },
        },
      },
      errors: ['not_found', 'invalid_parameter'],
      handler: async ({ scope, params: { id }, query, after }) => {
        const plan = await planOf(scope, id, after)
        const { cursor, limit = usualLimit } = query
        const rows = await readRequests(
          pool,
          plan.planId,
          {
            host: query.host,
            country: query.country,
            reason: query.reason,
            requestId: query.request_id,
            sinceMs: query.since === undefined ? undefined : inRange(query.since),
            untilMs: query.until === undefined ? undefined : inRange(query.until),
          },
          { after: cursor === undefined ? null : placeOf(cursor), limit: limit + 1 },
        )
        const requests = rows.slice(0, limit)
        const last = rows.length > limit ? requests.at(-1) : undefined
        return {
          status: 200,
          body: {
            planId: plan.planId,
            requests: requests as z.infer<typeof GatewayRequest>[],
            nextCursor: last === undefined ? null : cursorOf(last),
          },
        }
      },
    }),
    route({
      method: 'GET',
      path: '/api/v1/plans/{id}/traffic',
      operationId: 'getPlanTraffic',
      summary: 'Read what used the traffic of a plan',
      description:
        'The traffic of whole hours by host, country, hour or line. The sum of all rows is exactly the metered bytes of these hours.',
      tag: 'Plans',
      access: 'buy',
      writes: false,
      customer: 'limits',
      params,
      examples,
      query: z.object({
        group_by: wordQuery(
          trafficGroups,
          'What the traffic is grouped by. Default: host.',
          'TrafficGrouping',
        ).optional(),
        since,
        until,
      }),
      responses: {
        200: { description: 'The traffic of the plan.', body: PlanTraffic, example: trafficExample },
      },
      errors: ['not_found', 'invalid_parameter'],
      handler: async ({ scope, params: { id }, query, after }) => {
        const toMs = inRange(query.until ?? clock())
        const fromMs = inRange(query.since ?? toMs - dayMs)
        if (fromMs >= toMs)
          throw refuse('invalid_parameter', 'until must be later than since: since is included, until is not')
        const range = hourRange({ fromMs, toMs })
        if (range.toMs - range.fromMs > longestMs)
          throw refuse('invalid_parameter', `since and until may be ${longestMs / dayMs} days apart at most`)
        const plan = await planOf(scope, id, after)
        const groupBy = query.group_by ?? 'host'
        const report = await readTraffic(pool, plan.planId, range, groupBy)
        return {
          status: 200,
          body: {
            planId: plan.planId,
            unit: 'bytes' as const,
            groupBy,
            from: isoTime(range.fromMs),
            to: isoTime(range.toMs),
            ...report,
            groups: [...report.groups],
            reasons: [...report.reasons],
          },
        }
      },
    }),
  ]
}
