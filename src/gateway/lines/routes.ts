import type pg from 'pg'
import { z } from 'zod'
import type { Reads } from '../../../projections/engine/reads.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { Catalog } from '../../market/catalog/catalog.ts'
import type { Generate } from '../../market/catalog/product.ts'
import { createOwnPlan } from '../../market/plans/own-plan.ts'
import type { PlanQueries } from '../../market/plans/queries.ts'
import {
  connectionOf,
  type FoundPlan,
  type Gateway,
  PlanRecord,
  planExample,
} from '../../market/plans/record.ts'
import { rotatePlanPassword } from '../../market/plans/rotation.ts'
import type { CommandRunner } from '../../platform/eventstore/commands/command.ts'
import { refuse } from '../../platform/http/errors.ts'
import { pageShape, pagingCodes, pagingQuery } from '../../platform/http/paging.ts'
import { type Route, route } from '../../platform/http/route.ts'
import type { Credentials } from '../../platform/vault/credentials.ts'
import type { Family } from '../../terms/order-details.ts'
import type { ExitIndex } from '../exits/candidates.ts'
import type { ExitHealth } from '../exits/health.ts'
import { maxReleased, releaseSessions } from '../exits/sticky.ts'
import {
  generateLines,
  isLineTemplate,
  lineFormats,
  lineProtocols,
  nameBytes,
  templateMarks,
} from './generate.ts'
import { type LineSets, maxSets } from './sets.ts'
import { anywhere, type Targeting } from './targeting.ts'
import { targetingCodes, targetingFields, targetingOf } from './targeting-input.ts'
import { maxLifetimeMinutes, maxWrittenBytes, writeTargeting } from './username.ts'
import { maxWhitelist, maxWhitelistedAtOnce, networkForm, networkOf, type Whitelist } from './whitelist.ts'

const maxLines = 5_000
const maxTemplate = 512
/** How long the former password works after a rotation. */
const graceMs = 2 * 60_000

const params = z.object({ id: z.string() })
const examples = { params: { id: planExample.planId } }
const instant = z.string().meta({ format: 'date-time' })

const Line = z
  .object({
    host: z.string(),
    port: z.int(),
    protocol: z.enum(lineProtocols),
    username: z.string(),
    password: z.string(),
    sessionId: z.string().nullable(),
    expiresAt: z.null(),
  })
  .meta({ id: 'Line' })

const Generated = z
  .object({
    planId: z.string(),
    count: z.int(),
    protocol: z.enum(lineProtocols),
    format: z.enum(lineFormats),
    stickyMinutes: z.int().meta({ description: 'As the lines have it: more than 1,440 is read as 1,440.' }),
    lines: z.array(z.union([z.string(), Line])),
  })
  .meta({ id: 'GeneratedLines' })

const { host, ports, username, password } = planExample.connection
const lineExample = `${host}:${ports.http}:${username}-country-us-session-k3v9q2xw-lifetime-30:${password}`

const WhitelistEntry = z
  .object({
    id: z.string(),
    cidr: z.string(),
    label: z.string(),
    createdAt: instant,
    lastUsedAt: instant.nullable().meta({ description: 'To the minute; null before the first use.' }),
  })
  .meta({ id: 'WhitelistEntry' })
const entryExample = {
  id: 'wle_0190d0a2c1d27f0e8f6e5c4b3a291807',
  cidr: '203.0.113.7/32',
  label: 'office',
  createdAt: '2026-11-21T02:30:00.000Z',
  lastUsedAt: null,
}

const isNowhere = (targeting: Targeting): boolean =>
  writeTargeting({ ...targeting, strict: true }) === writeTargeting(anywhere)

/** Lines of plans: generating them, their password, their sessions, and who needs none. */
export const lineRoutes = (deps: {
  readonly catalog: { current(): Catalog }
  readonly reads: Pick<Reads, 'settled'>
  readonly db: PlanQueries
  readonly pool: pg.Pool
  readonly runner: CommandRunner
  readonly credentials: Credentials
  readonly gateway: Gateway
  readonly exits: { readonly index: () => ExitIndex; readonly health: Pick<ExitHealth, 'isAlive'> }
  readonly sets: LineSets
  readonly whitelist: Whitelist
  /** Whether loopback addresses may be on a whitelist (FAREBOX_GATEWAY_ALLOW_LOOPBACK). */
  readonly allowLoopback: boolean
  readonly clock: Clock
}): readonly Route[] => {
  const { catalog, pool, runner, credentials, gateway, exits, sets, whitelist, clock } = deps

  const planOf = createOwnPlan(deps)

  const soldOf = (plan: FoundPlan): { readonly generate: Generate; readonly family: Family | null } => {
    const product = catalog.current().resolve(plan.product_id)
    return product && 'generate' in product
      ? { generate: product.generate, family: product.family }
      : { generate: { maxCount: 0, targeting: [] }, family: null }
  }

  /** Refuses what no line could ever go out of: a misspelt place, and where no exit is now. */
  const refuseNowhere = (targeting: Targeting, family: Family | null): void => {
    const index = exits.index()
    const unknown = index.unknownPlace(targeting)
    if (unknown) throw refuse('invalid_targeting', unknown.detail)
    if (isNowhere(targeting)) return
    const lives = (wanted: Targeting): boolean =>
      index.fitting(wanted, { udp: wanted.udp, family }).some(({ exitId }) => exits.health.isAlive(exitId))
    const { country, strict, udp } = targeting
    if (lives(targeting)) return
    const ofCountry = { ...anywhere, country }
    if (country !== null && !lives(ofCountry))
      throw refuse(
        'invalid_targeting',
        'country is one that no exit serves now: GET /api/v1/geo/countries lists those that there are',
      )
    if (udp && !lives({ ...ofCountry, udp }))
      throw refuse('invalid_udp', 'udp: no exit of this kind passes UDP on now')
    if (strict || country === null)
      throw refuse(
        'invalid_targeting',
        'no exit that is there now matches all of this: widen it, or send strict false to fall back to the country',
      )
  }

  return [
    route({
      method: 'POST',
      path: '/api/v1/plans/{id}/generate',
      operationId: 'generateLines',
      summary: 'Generate lines of a plan',
      description:
        'Proxy lines to paste into a client. Nothing is charged or kept: lines work at once, as long as the plan and its password do. Where they go out is said in the username, which may be written by hand too (docs/gateway.md). With `Accept: text/plain`, one line each.',
      tag: 'Plans',
      access: 'buy',
      writes: true,
      customer: 'limits',
      params,
      body: z.strictObject({
        count: z.int().min(1).max(maxLines).optional().meta({ description: 'How many; default 1.' }),
        stickyMinutes: z.int().min(0).optional().meta({
          description:
            'Each line keeps its exit for so many minutes from its first use, at most 1,440; default 0: another exit for each connection.',
        }),
        ...targetingFields,
        protocol: z.enum(lineProtocols).optional().meta({
          description: 'Default http, of lines with `udp` socks5. The port takes all of them.',
        }),
        format: z.enum(lineFormats).optional().meta({ description: 'Default `host:port:user:pass`.' }),
        template: z
          .string()
          .min(1)
          .max(maxTemplate)
          .optional()
          .meta({ description: `With the format \`custom\`: a text with ${templateMarks}.` }),
      }),
      codes: { body: { count: 'invalid_count', stickyMinutes: 'invalid_sticky', ...targetingCodes } },
      examples: { ...examples, body: { count: 1, country: 'us', stickyMinutes: 30 } },
      responses: {
        200: {
          description: 'The lines.',
          body: Generated,
          example: {
            planId: planExample.planId,
            count: 1,
            protocol: 'http',
            format: 'host:port:user:pass',
            stickyMinutes: 30,
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
        const { count = 1, stickyMinutes: wanted = 0, format = 'host:port:user:pass', template } = body
        const { protocol = body.udp === true ? 'socks5' : 'http', ...rest } = body
        const plan = await planOf(scope, id, after)
        const { generate, family } = soldOf(plan)
        if (count > generate.maxCount)
          throw refuse(
            'invalid_count',
            `count must be a whole number from 1 to ${generate.maxCount}, as generate.maxCount of the plan says`,
          )
        const { count: _, stickyMinutes: __, format: ___, template: ____, ...input } = rest
        const targeting = targetingOf(input, generate.targeting)
        if (targeting.udp && protocol !== 'socks5')
          throw refuse('invalid_udp', 'udp is for lines of SOCKS5: send protocol socks5')
        if ((format === 'custom') !== (template !== undefined))
          throw refuse('invalid_body', 'template and the format custom go together')
        if (template !== undefined && (!isLineTemplate(template) || /\p{Cc}/u.test(template)))
          throw refuse(
            'invalid_body',
            `template may hold ${templateMarks} and no other braces or line breaks`,
          )
        refuseNowhere(targeting, family)
        const planId = plan.plan_id
        const credential = credentials.of(planId, plan.generation)
        const isLong = nameBytes(credential.username, targeting) > maxWrittenBytes
        const set = isLong ? await sets.store(planId, targeting) : null
        if (isLong && set === null)
          throw refuse(
            'invalid_exclude',
            `this plan has ${maxSets} long lists already: use one of those again, or shorter ones`,
          )
        const stickyMinutes = Math.min(wanted, maxLifetimeMinutes)
        const lines = generateLines({
          count,
          stickyMinutes,
          protocol,
          format,
          template: template ?? '',
          targeting,
          set,
          gateway,
          credential,
        })
        if (/^text\/plain\b/.test(headers.accept ?? ''))
          return {
            status: 200,
            text: lines.map((line) => (typeof line === 'string' ? line : JSON.stringify(line))).join('\n'),
          }
        return { status: 200, body: { planId, count, protocol, format, stickyMinutes, lines: [...lines] } }
      },
    }),

    route({
      method: 'POST',
      path: '/api/v1/plans/{id}/rotate-password',
      operationId: 'rotatePlanPassword',
      summary: "Change a plan's password",
      description:
        'Gives the plan another password. The former one works for two more minutes; lines that have it answer 407 then, and connections that were opened with it end.',
      tag: 'Plans',
      access: 'buy',
      writes: true,
      customer: 'limits',
      params,
      examples,
      responses: {
        200: {
          description: 'The new connection.',
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
        const { plan_id: planId } = await planOf(scope, id, after)
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
        'Ends sticky sessions before their time: the next connection of each goes out of another exit, also after a 568. Connections that run go on. Gateways know within a second.',
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
          .meta({ description: 'Ids of sessions, as usernames have them; left out: all of the plan.' }),
      }),
      examples: { ...examples, body: { sessions: ['k3v9q2xw'] } },
      responses: {
        200: {
          description: 'How many were running.',
          body: z.object({ planId: z.string(), released: z.int() }).meta({ id: 'ReleasedSessions' }),
          example: { planId: planExample.planId, released: 1 },
        },
      },
      errors: ['not_found'],
      handler: async ({ scope, params: { id }, body: { sessions = null }, after }) => {
        const { plan_id: planId } = await planOf(scope, id, after)
        const released = await releaseSessions(pool, planId, sessions, clock())
        return { status: 200, body: { planId, released } }
      },
    }),

    route({
      method: 'GET',
      path: '/api/v1/plans/{id}/whitelist',
      operationId: 'listWhitelist',
      summary: 'List addresses that need no credentials',
      description: "The plan's whitelist, newest first.",
      tag: 'Plans',
      access: 'buy',
      writes: false,
      customer: 'limits',
      params,
      query: z.object(pagingQuery),
      codes: { query: pagingCodes },
      examples,
      responses: {
        200: {
          description: 'A page of the whitelist.',
          body: z.object({ whitelist: z.array(WhitelistEntry), ...pageShape }).meta({ id: 'Whitelist' }),
          example: { whitelist: [entryExample], total: 1, limit: 50, offset: 0 },
        },
      },
      errors: ['not_found'],
      handler: async ({ scope, params: { id }, query: { limit, offset }, after }) => {
        const { plan_id: planId } = await planOf(scope, id, after)
        const { entries, total } = await whitelist.list(planId, { limit, offset })
        return { status: 200, body: { whitelist: [...entries], total, limit, offset } }
      },
    }),

    route({
      method: 'POST',
      path: '/api/v1/plans/{id}/whitelist',
      operationId: 'addToWhitelist',
      summary: 'Let addresses connect without credentials',
      description: `Connections from these addresses use this plan when they send no credentials; credentials that are sent win. An address is on the whitelist of one plan; an account has up to ${maxWhitelist}. All entries are added or none.`,
      tag: 'Plans',
      access: 'buy',
      writes: true,
      customer: 'limits',
      params,
      body: z.strictObject({
        entries: z
          .array(
            z.strictObject({
              cidr: z
                .string()
                .max(64)
                .meta({ description: `It is ${networkForm}.` }),
              label: z.string().max(64).optional(),
            }),
          )
          .min(1)
          .max(maxWhitelistedAtOnce),
        move: z
          .boolean()
          .optional()
          .meta({ description: 'true takes entries from other plans of the account.' }),
      }),
      examples: { ...examples, body: { entries: [{ cidr: '203.0.113.7', label: 'office' }] } },
      responses: {
        201: {
          description: 'The entries, as they are now.',
          body: z.object({ whitelist: z.array(WhitelistEntry) }).meta({ id: 'WhitelistAdded' }),
          example: { whitelist: [entryExample] },
        },
      },
      errors: ['not_found', 'invalid_ip', 'address_taken', 'whitelist_limit_reached'],
      handler: async ({ caller, scope, params: { id }, body, after }) => {
        const { plan_id: planId } = await planOf(scope, id, after)
        const entries = new Map<string, { readonly cidr: string; readonly label: string }>()
        for (const [at, { cidr: text, label = '' }] of body.entries.entries()) {
          const cidr = networkOf(text, deps.allowLoopback)
          if (cidr === null) throw refuse('invalid_ip', `entries[${at}].cidr must be ${networkForm}`)
          entries.set(cidr, { cidr, label })
        }
        const plan = { planId, accountId: caller.accountId }
        const added = await whitelist.add(plan, [...entries.values()], body.move ?? false)
        if (added.outcome === 'full')
          throw refuse(
            'whitelist_limit_reached',
            `an account has at most ${maxWhitelist} addresses on whitelists`,
          )
        if (added.outcome === 'taken')
          throw refuse('address_taken', `${added.cidr} is on the whitelist of another plan`, {
            movable: added.movable,
          })
        return { status: 201, body: { whitelist: [...added.entries] } }
      },
    }),

    route({
      method: 'DELETE',
      path: '/api/v1/plans/{id}/whitelist/{entryId}',
      operationId: 'removeFromWhitelist',
      summary: 'Take an address off the whitelist',
      description:
        'Its next connection without credentials is refused, within a second; those that run go on.',
      tag: 'Plans',
      access: 'buy',
      writes: true,
      customer: 'limits',
      params: z.object({ id: z.string(), entryId: z.string() }),
      examples: { params: { id: planExample.planId, entryId: entryExample.id } },
      responses: { 204: { description: 'It is off.' } },
      errors: ['not_found'],
      handler: async ({ scope, params: { id, entryId }, after }) => {
        const { plan_id: planId } = await planOf(scope, id, after)
        if (!(await whitelist.remove(planId, entryId)))
          throw refuse('not_found', 'the plan has no such entry on its whitelist')
        return { status: 204 }
      },
    }),
  ]
}
