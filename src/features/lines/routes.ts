import type pg from 'pg'
import { z } from 'zod'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import { maxStickyMinutes } from '../../domain/exits/line.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import { equals, given, not, when, withRule } from '../../platform/http/field-rules.ts'
import { namedEnum } from '../../platform/http/named-enum.ts'
import { type Route, route } from '../../platform/http/route.ts'
import type { Credentials } from '../../platform/vault/credentials.ts'
import { maxReleased, releaseSessions } from '../exits/index.ts'
import {
  connectionOf,
  createFindPlan,
  type FindPlanDependencies,
  type Gateway,
  PlanRecord,
  planExample,
  rotatePlanPassword,
} from '../plans/index.ts'
import { type LineService, lineFormats, lineProtocols, linesText, templateMarks } from './generate-lines.ts'
import { targetingCodes, targetingFields } from './targeting-input.ts'

const maxLines = 5_000
const maxTemplate = 512
/** How long the former password works after a rotation, milliseconds. */
const graceMs = 2 * 60_000

const params = z.object({ id: z.string() })
const examples = { params: { id: planExample.planId } }
const instant = z.string().meta({ format: 'date-time' })

const Line = z
  .object({
    host: z.string(),
    port: z.int(),
    protocol: namedEnum('LineProtocol', lineProtocols),
    username: z.string(),
    password: z.string(),
    sessionId: z.string().nullable(),
    expiresAt: instant.nullable().meta({ description: 'Always null: a line ends with its plan.' }),
  })
  .meta({ id: 'Line' })

const Generated = z
  .object({
    planId: z.string(),
    count: z.int(),
    protocol: namedEnum('LineProtocol', lineProtocols),
    format: namedEnum('LineFormat', lineFormats),
    stickyMinutes: z.int().meta({ description: 'The targeting from the request.' }),
    lineSet: z
      .string()
      .nullable()
      .meta({ description: 'The id of the set, as `-set-` in the usernames. Null: no set.' }),
    lines: z.array(
      z.union([z.string(), Line]).meta({
        description: `A text. With the format \`json\` it is an object with ${Object.keys(Line.shape)
          .map((name) => `\`${name}\``)
          .join(', ')}.`,
        // Generators of C# clients cannot read a choice between a text and an object.
        override: {},
      }),
    ),
  })
  .meta({ id: 'GeneratedLines' })

const { host, ports, username, password } = planExample.connection
const lineExample = `${host}:${ports.http}:${username}-country-us-session-k3v9q2xw-lifetime-30:${password}`

/** Lines of plans: generation, password and sessions. */
export const lineRoutes = (
  dependencies: FindPlanDependencies & {
    readonly catalog: { current(): Catalog }
    readonly pool: pg.Pool
    readonly runner: CommandRunner
    readonly credentials: Credentials
    readonly gateway: Gateway
    readonly lines: LineService
    readonly clock: Clock
  },
): readonly Route[] => {
  const { pool, runner, credentials, gateway, clock } = dependencies

  const planOf = createFindPlan(dependencies)

  return [
    route({
      method: 'POST',
      path: '/api/v1/plans/{id}/generate',
      operationId: 'generateLines',
      summary: 'Generate the proxy lines of a plan',
      description:
        'Proxy lines to paste into a client. The request charges nothing, and stores only the targeting of a set. Lines work at once, as long as the plan is active and its password does not change. The username contains the targeting; you can also write usernames by hand (docs/guides/proxy-lines.md). With `Accept: text/plain`, the answer has one line of text for each proxy line.',
      tag: 'Plans',
      access: 'buy',
      writes: true,
      customer: 'limits',
      params,
      body: withRule(
        z.strictObject({
          count: z
            .int()
            .min(1)
            .max(maxLines)
            .optional()
            .meta({ description: 'The number of lines. Default: 1.' }),
          stickyMinutes: z.int().min(0).max(maxStickyMinutes).optional().meta({
            description:
              'The session length in minutes, at most 1,440. Each line uses the same exit for this time from its first use. Default: 0, a new exit for each connection.',
          }),
          ...targetingFields,
          protocol: namedEnum('LineProtocol', lineProtocols).optional().meta({
            description:
              'The protocol of the lines. Default: `http`, or `socks5` for lines with `udp` or `url-socks5`. One port accepts HTTP and SOCKS5. `https` uses the TLS port (`connection.ports.https`), or the same port without TLS if the service has no TLS port.',
          }),
          format: namedEnum('LineFormat', lineFormats).optional().meta({
            description:
              'The format of each line. Default: `host:port:user:pass`. `url` begins with `socks5h://` for SOCKS5, so that the gateway resolves host names. `url-socks5` begins with `socks5://`, for programs that know no other form.',
          }),
          template: z
            .string()
            .min(1)
            .max(maxTemplate)
            .optional()
            .meta({ description: `The template for the format \`custom\`: a text with ${templateMarks}.` }),
          set: z
            .string()
            .regex(/^[A-Za-z0-9_-]{1,40}$/)
            .optional()
            .meta({
              description:
                'The name of a set for the lines: 1 to 40 letters, digits, `-` and `_`. The usernames then have `-set-` with an id (`lineSet` of the answer) in place of the targeting. A traffic budget can limit the lines of a set. The same name with another targeting is another set.',
              words: '1 to 40 letters, digits, - and _',
            }),
        }),
        when(given('template', 'string'), equals('format', 'custom'), not(equals('format', 'custom'))),
        'must have a template with the format custom, and only then',
      ),
      codes: { body: { count: 'invalid_count', stickyMinutes: 'invalid_sticky', ...targetingCodes } },
      examples: { ...examples, body: { count: 1, country: 'us', stickyMinutes: 30 } },
      responses: {
        200: {
          description: 'The generated lines.',
          body: Generated,
          example: {
            planId: planExample.planId,
            count: 1,
            protocol: 'http',
            format: 'host:port:user:pass',
            stickyMinutes: 30,
            lineSet: null,
            lines: [lineExample],
          },
          text: { mediaType: 'text/plain', example: lineExample },
        },
      },
      errors: [
        'not_found',
        'invalid_count',
        'invalid_sticky',
        'invalid_targeting',
        'invalid_exclude',
        'invalid_udp',
        'invalid_body',
      ],
      handler: async ({ scope, params: { id }, body, headers, after }) => {
        const generated = await dependencies.lines(await planOf(scope, id, after), body)
        if (/^text\/plain\b/.test(headers.accept ?? '')) return { status: 200, text: linesText(generated) }
        return { status: 200, body: { ...generated, lines: [...generated.lines] } }
      },
    }),

    route({
      method: 'POST',
      path: '/api/v1/plans/{id}/rotate-password',
      operationId: 'rotatePlanPassword',
      summary: "Change a plan's password",
      description:
        'Creates a new password for the plan. The former password works for two more minutes. After that, lines with the former password get status 407, and connections with it are closed.',
      tag: 'Plans',
      access: 'buy',
      writes: true,
      customer: 'limits',
      params,
      examples,
      responses: {
        200: {
          description: 'The connection data with the new password.',
          body: z
            .object({
              planId: z.string(),
              connection: PlanRecord.shape.connection,
              previousValidUntil: instant,
            })
            .meta({ id: 'RotatedPassword' }),
          example: {
            planId: planExample.planId,
            connection: planExample.connection,
            previousValidUntil: '2026-11-21T02:32:00.000Z',
          },
        },
      },
      errors: ['not_found'],
      handler: async ({ caller, scope, params: { id }, requestId, after }) => {
        const { planId } = await planOf(scope, id, after)
        const { generation, rotatedAtMs, position } = await rotatePlanPassword(runner, planId, {
          accountId: caller.accountId,
          actor: { kind: 'key', accountId: caller.accountId, keyId: caller.keyId },
          correlationId: requestId,
        })
        return {
          status: 200,
          position,
          body: {
            planId,
            connection: connectionOf(gateway, credentials.of(planId, generation)),
            previousValidUntil: isoTime(rotatedAtMs + graceMs),
          },
        }
      },
    }),

    route({
      method: 'POST',
      path: '/api/v1/plans/{id}/sessions/release',
      operationId: 'releaseSessions',
      summary: 'Release sticky sessions',
      description:
        'Ends sticky sessions early: the next connection of each session uses another exit, also after error 568. Open connections continue. Gateways apply the change within a second.',
      tag: 'Plans',
      access: 'buy',
      writes: true,
      customer: 'limits',
      params,
      body: z.strictObject({
        sessions: z
          .array(z.string().regex(/^[A-Za-z0-9_]{1,32}$/))
          .min(1)
          .max(maxReleased)
          .optional()
          .meta({
            description: 'The ids of the sessions, as in usernames. Left out: all sessions of the plan.',
          }),
      }),
      examples: { ...examples, body: { sessions: ['k3v9q2xw'] } },
      responses: {
        200: {
          description: 'The number of sessions that ended.',
          body: z.object({ planId: z.string(), released: z.int() }).meta({ id: 'ReleasedSessions' }),
          example: { planId: planExample.planId, released: 1 },
        },
      },
      errors: ['not_found'],
      handler: async ({ scope, params: { id }, body: { sessions = null }, after }) => {
        const { planId } = await planOf(scope, id, after)
        const released = await releaseSessions(pool, planId, sessions, clock())
        return { status: 200, body: { planId, released } }
      },
    }),
  ]
}
