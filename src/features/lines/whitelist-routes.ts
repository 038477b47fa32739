import { z } from 'zod'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import { causeOf } from '../../platform/http/auth.ts'
import { refuse } from '../../platform/http/errors.ts'
import { pageShape, pagingCodes, pagingQuery } from '../../platform/http/query.ts'
import { type Route, route } from '../../platform/http/route.ts'
import { createFindPlan, type FindPlanDependencies, planExample } from '../plans/index.ts'
import { targetingCodes, targetingFields, toTargetingInput } from './targeting-input.ts'
import {
  type AddToWhitelist,
  type WhitelistEntry as Entry,
  maxWhitelist,
  maxWhitelistedAtOnce,
  networkForm,
  type Whitelist,
} from './whitelist.ts'

const params = z.object({ id: z.string() })
const examples = { params: { id: planExample.planId } }
const instant = z.string().meta({ format: 'date-time' })

const WhitelistEntry = z
  .object({
    id: z.string(),
    cidr: z.string(),
    label: z.string(),
    targeting: z.strictObject(targetingFields).nullable().meta({
      description: 'The targeting for connections without credentials. Null: any exit.',
    }),
    createdAt: instant,
    lastUsedAt: instant
      .nullable()
      .meta({ description: 'The time of the last use, rounded to the minute. Null: never used.' }),
  })
  .meta({ id: 'WhitelistEntry' })
const entryExample = {
  id: 'wle_0190d0a2c1d27f0e8f6e5c4b3a291807',
  cidr: '8.8.8.8/32',
  label: 'office',
  targeting: { country: 'us' },
  createdAt: '2026-11-21T02:30:00.000Z',
  lastUsedAt: null,
}

/** The refusal codes of an entry's targeting fields, as for line generation. */
const entryCodes = {
  'entries.cidr': { value: 'invalid_ip' },
  ...Object.fromEntries(
    Object.entries(targetingCodes).map(([field, code]) => [`entries.targeting.${field}`, code]),
  ),
} as const

const entryJson = (entry: Entry): z.infer<typeof WhitelistEntry> => ({
  ...entry,
  targeting: entry.targeting && toTargetingInput(entry.targeting),
})

/** Addresses that may use a plan without credentials, and the targeting of their connections. */
export const whitelistRoutes = (
  dependencies: FindPlanDependencies & {
    readonly catalog: { current(): Catalog }
    readonly whitelist: Whitelist
    readonly addToWhitelist: AddToWhitelist
  },
): readonly Route[] => {
  const { whitelist } = dependencies
  const planOf = createFindPlan(dependencies)

  return [
    route({
      method: 'GET',
      path: '/api/v1/plans/{id}/whitelist',
      operationId: 'listWhitelist',
      summary: 'List the whitelist of a plan',
      description: "The addresses on the plan's whitelist, newest first.",
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
        const { planId } = await planOf(scope, id, after)
        const { entries, total } = await whitelist.list(planId, { limit, offset })
        return { status: 200, body: { whitelist: entries.map(entryJson), total, limit, offset } }
      },
    }),

    route({
      method: 'POST',
      path: '/api/v1/plans/{id}/whitelist',
      operationId: 'addToWhitelist',
      summary: 'Add addresses to the whitelist',
      description: `Connections from these addresses use this plan and \`targeting\` when they have no credentials. Credentials in a connection have precedence. For an address that is already on the whitelist, the new entry replaces the former entry. An address can be on the whitelist of one plan. An account can have up to ${maxWhitelist} addresses. The request adds all entries or none.`,
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
                .regex(/^[0-9A-Fa-f.:/]+$/)
                .meta({ description: `The address or network: ${networkForm}.`, words: networkForm }),
              label: z.string().max(64).optional(),
              targeting: z.strictObject(targetingFields).optional().meta({
                description: 'The targeting of connections, as for line generation. Default: any exit.',
              }),
            }),
          )
          .min(1)
          .max(maxWhitelistedAtOnce),
        move: z
          .boolean()
          .optional()
          .meta({ description: 'True: moves the entries from other plans of the account to this plan.' }),
      }),
      codes: { body: entryCodes },
      examples: {
        ...examples,
        body: { entries: [{ cidr: '8.8.8.8', label: 'office', targeting: { country: 'us' } }] },
      },
      responses: {
        201: {
          description: 'The added entries.',
          body: z.object({ whitelist: z.array(WhitelistEntry) }).meta({ id: 'WhitelistAdded' }),
          example: { whitelist: [entryExample] },
        },
      },
      errors: [
        'not_found',
        'invalid_ip',
        'invalid_targeting',
        'invalid_exclude',
        'invalid_udp',
        'address_taken',
        'whitelist_limit_reached',
      ],
      handler: async ({ caller, scope, params: { id }, body, after, requestId }) => {
        const { entries, move = false } = body
        const added = await dependencies.addToWhitelist(
          await planOf(scope, id, after),
          caller.accountId,
          { entries, move },
          causeOf({ caller, requestId }),
        )
        return { status: 201, body: { whitelist: added.map(entryJson) } }
      },
    }),

    route({
      method: 'DELETE',
      path: '/api/v1/plans/{id}/whitelist/{entryId}',
      operationId: 'removeFromWhitelist',
      summary: 'Remove an address from the whitelist',
      description:
        'The next connection from this address without credentials is rejected, at most one second later. Open connections continue.',
      tag: 'Plans',
      access: 'buy',
      writes: true,
      customer: 'limits',
      params: z.object({ id: z.string(), entryId: z.string() }),
      examples: { params: { id: planExample.planId, entryId: entryExample.id } },
      responses: { 204: { description: 'The address is no longer on the whitelist.' } },
      errors: ['not_found'],
      handler: async ({ caller, scope, params: { id, entryId }, after, requestId }) => {
        const { planId } = await planOf(scope, id, after)
        const plan = { planId, accountId: caller.accountId }
        if (!(await whitelist.remove(plan, entryId, causeOf({ caller, requestId }))))
          throw refuse('not_found', 'the plan has no such entry on its whitelist')
        return { status: 204 }
      },
    }),
  ]
}
