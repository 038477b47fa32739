import { z } from 'zod'
import { type Route, route } from '../../platform/http/route.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'

const Me = z
  .object({
    accountId: z.string().meta({ description: 'The account.' }),
    userId: z.string().meta({ description: 'The same as `accountId`.' }),
    email: z.string().meta({ description: 'Empty once it was erased.' }),
    scopes: z.array(z.enum(['buy', 'scrape'])).meta({ description: 'What the key may do.' }),
    dailySpendCapCents: z
      .int()
      .nullable()
      .meta({ description: "What the key's orders may cost in any 24 hours; null without a cap." }),
  })
  .meta({ id: 'Me' })

const example = {
  accountId: 'acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b',
  userId: 'acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b',
  email: 'buyer@example.com',
  scopes: ['buy'],
  dailySpendCapCents: 5000,
} as const

/** Returns the caller's account and key: docs/reference/api.md, "Authentication". */
export const accountRoutes = ({
  reads,
  db,
}: {
  readonly reads: Pick<Reads, 'settled'>
  readonly db: Db
}): readonly Route[] => [
  route({
    method: 'GET',
    path: '/api/v1/me',
    operationId: 'getMe',
    summary: 'Show who the key belongs to',
    description: 'The account of the key, what the key may do, and its daily cap. Any valid key may ask.',
    tag: 'Account',
    access: 'any-key',
    writes: false,
    customer: 'unaffected',
    responses: { 200: { description: 'The account and the key.', body: Me, example } },
    errors: [],
    handler: async ({ caller, after }) => {
      const { accountId, keyId, email, scopes, dailyCapCents } = caller
      await reads.settled(accountId, after ?? 0)
      // The cached caller may be half a second old. A cap that was just changed is shown at once.
      const key = await db
        .selectFrom('read.keys')
        .select(['scopes', 'dailyCapCents'])
        .where('keyId', '=', keyId)
        .executeTakeFirst()
      const dailySpendCapCents = key ? key.dailyCapCents : dailyCapCents
      const body = { accountId, userId: accountId, email, scopes: key?.scopes ?? scopes, dailySpendCapCents }
      return { status: 200, body }
    },
  }),
]
