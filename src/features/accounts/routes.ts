import { z } from 'zod'
import { createReadPurse } from '../../../projections/balances.ts'
import { capOf } from '../../domain/accounts/fold.ts'
import { cappedSpendMicros, ledgerRef } from '../../domain/ledger/fold.ts'
import type { Clock } from '../../kernel/clock.ts'
import { microsToCentsCeil } from '../../kernel/money.ts'
import { capCoverages, scopes } from '../../kernel/scopes.ts'
import { type CommandRunner, readState } from '../../platform/commands/command.ts'
import { causeOf } from '../../platform/http/auth.ts'
import { namedEnum } from '../../platform/http/named-enum.ts'
import { type Route, route } from '../../platform/http/route.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'

const Me = z
  .object({
    accountId: z.string().meta({ description: 'The id of the account.' }),
    userId: z.string().meta({ description: 'The id of the account, as in `accountId`.' }),
    email: z
      .string()
      .meta({ description: 'The e-mail address of the account. An empty text: the address was erased.' }),
    scopes: z.array(namedEnum('KeyScope', scopes)).meta({
      description:
        'The scopes of the key: `buy` for orders, `scrape` for scraper calls, `read` for reading only.',
    }),
    dailySpendCapCents: z.int().nullable().meta({
      description:
        'The maximum that the key may spend in any 24 hours, in whole cents. Null: the key has no cap.',
    }),
    capCovers: namedEnum('CapCoverage', capCoverages).nullable().meta({
      description:
        'What the cap limits: the cost of `orders`, or `everything` that the key can cost: orders and scraper calls. A key with `everything` cannot change automatic top-up. Null: the key has no cap.',
    }),
    dailySpentCents: z.int().min(0).nullable().meta({
      description:
        'What counts against the cap now, in whole cents, rounded up. The key shares it with the keys that it replaced. Null: the key has no cap.',
    }),
    owedCents: z.int().min(0).meta({
      description:
        'The debt of the account after refunds and disputes, in whole cents. The next payments pay it first.',
    }),
  })
  .meta({ id: 'Me' })

const example = {
  accountId: 'acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b',
  userId: 'acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b',
  email: 'buyer@example.com',
  scopes: ['buy'],
  dailySpendCapCents: 5000,
  capCovers: 'everything',
  dailySpentCents: 1250,
  owedCents: 0,
} as const

/** Returns the caller's account and key: docs/reference/api.md, "Authentication". */
export const accountRoutes = ({
  reads,
  db,
  runner,
  clock,
}: {
  readonly reads: Pick<Reads, 'settled'>
  readonly db: Db
  readonly runner: CommandRunner
  readonly clock: Clock
}): readonly Route[] => {
  const readPurse = createReadPurse(db)
  return [
    route({
      method: 'GET',
      path: '/api/v1/me',
      operationId: 'getMe',
      summary: 'Read the account of the key',
      description:
        'The account of the key with its debt, the scopes of the key, its daily cap and what of it is spent. Every valid key has access.',
      tag: 'Account',
      access: 'any-key',
      writes: false,
      customer: 'unaffected',
      responses: { 200: { description: 'The account and the key.', body: Me, example } },
      errors: [],
      handler: async ({ caller, after, requestId }) => {
        const { accountId, keyId, capKeyId, email, scopes } = caller
        await reads.settled(accountId, after ?? 0)
        // The cached caller may be half a second old. A cap that was just changed is shown at once.
        const key = await db
          .selectFrom('read.keys')
          .select(['scopes', 'dailyCapCents', 'capCovers'])
          .where('keyId', '=', keyId)
          .executeTakeFirst()
        const cap = key ? capOf(key) : caller.cap
        const spent =
          cap &&
          cappedSpendMicros(
            await readState(
              runner,
              { ...causeOf({ caller, requestId }), name: 'read-spending' },
              ledgerRef(accountId),
            ),
            capKeyId,
            cap.covers,
            clock(),
          )
        const owedCents = microsToCentsCeil((await readPurse(accountId)).receivableMicros)
        const whole = { accountId, userId: accountId, email }
        const body = {
          ...whole,
          scopes: key?.scopes ?? scopes,
          dailySpendCapCents: cap?.cents ?? null,
          capCovers: cap?.covers ?? null,
          dailySpentCents: spent === null ? null : microsToCentsCeil(spent),
          owedCents,
        }
        return { status: 200, body }
      },
    }),
  ]
}
