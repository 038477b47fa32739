import type { Kysely } from 'kysely'
import type pg from 'pg'
import { z } from 'zod'
import type { ReadDatabase } from '../../projections/database.ts'
import type { Reads } from '../../projections/engine/reads.ts'
import type { Customers } from '../customers/service.ts'
import { changeCustomer, findCustomer, listCustomers } from '../customers/vault.ts'
import type { Caller } from '../http/auth.ts'
import { refuse } from '../http/errors.ts'
import { pageShape, pagingCodes, pagingQuery } from '../http/paging.ts'
import { type Route, route } from '../http/route.ts'
import type { KeptAnswers } from '../kept/answers.ts'
import { customerExample, customerRecord, maxLabelLength, ResellerCustomer } from './record.ts'

const params = z.object({ id: z.string() })
const examples = { params: { id: customerExample.customerId } }

/** @throws reseller_forbidden for an account that is no reseller */
export const resellerOnly = ({ reseller }: Caller): void => {
  if (!reseller) throw refuse('reseller_forbidden', 'this is for reseller keys only')
}

const none = () => refuse('not_found', 'you have no customer with this id')

/** A reseller's customers: decisions.md, "Resellers and finance". */
export const resellerCustomerRoutes = (deps: {
  readonly reads: Pick<Reads, 'settled'>
  readonly kept: KeptAnswers
  readonly db: Kysely<ReadDatabase>
  readonly pool: pg.Pool
  readonly customers: Pick<Customers, 'idOf'>
}): readonly Route[] => {
  const { reads, kept, db, pool, customers } = deps

  const rowsOf = async (reseller: string, ids: readonly string[]) => {
    const rows =
      ids.length === 0
        ? []
        : await db
            .selectFrom('read.customers')
            .selectAll()
            .where('account_id', '=', reseller)
            .where('customer_id', 'in', ids)
            .execute()
    return new Map(rows.map((row) => [row.customer_id, row]))
  }

  return [
    route({
      method: 'GET',
      path: '/api/v1/reseller/customers',
      operationId: 'listResellerCustomers',
      summary: 'List your customers',
      description:
        'Customers with their credit and totals, newest first. The first deposit or order for a customer makes it.',
      tag: 'Resellers',
      access: 'buy',
      writes: false,
      query: z.object({
        ...pagingQuery,
        customer: z.string().optional().meta({ description: 'Only the one with this id of yours.' }),
      }),
      codes: { query: pagingCodes },
      responses: {
        200: {
          description: 'A page of customers.',
          body: z
            .object({ customers: z.array(ResellerCustomer), ...pageShape })
            .meta({ id: 'ResellerCustomerList' }),
          example: { customers: [customerExample], total: 1, limit: 50, offset: 0 },
        },
      },
      errors: ['reseller_forbidden'],
      handler: async ({ caller, query, after }) => {
        resellerOnly(caller)
        const { accountId } = caller
        const { limit, offset, customer: ref } = query
        const as = `customers ${limit} ${offset} ${JSON.stringify(ref)}`
        const body = await kept.answer({ account: accountId, as, after, outside: true }, async () => {
          const page =
            ref === undefined
              ? await listCustomers(pool, accountId, { limit, offset })
              : await findCustomer(pool, accountId, customers.idOf(accountId, ref)).then((found) => ({
                  customers: found === null || offset > 0 ? [] : [found],
                  total: found === null ? 0 : 1,
                }))
          const rows = await rowsOf(
            accountId,
            page.customers.map(({ customerId }) => customerId),
          )
          const records = page.customers.map((one) => customerRecord(one, rows.get(one.customerId)))
          return { body: { customers: records, total: page.total, limit, offset } }
        })
        return { status: 200, body }
      },
    }),

    route({
      method: 'GET',
      path: '/api/v1/reseller/customers/{id}',
      operationId: 'getResellerCustomer',
      summary: 'Read a customer',
      description: 'One customer with its credit and totals, by the id that orders and deposits show.',
      tag: 'Resellers',
      access: 'buy',
      writes: false,
      params,
      examples,
      responses: { 200: { description: 'The customer.', body: ResellerCustomer, example: customerExample } },
      errors: ['reseller_forbidden', 'not_found'],
      handler: async ({ caller, params: { id }, after }) => {
        resellerOnly(caller)
        const { accountId: account } = caller
        const body = await kept.answer({ account, as: `customer ${id}`, after, outside: true }, async () => {
          const customer = await findCustomer(pool, account, id)
          if (!customer) throw none()
          const rows = await rowsOf(account, [id])
          return { body: customerRecord(customer, rows.get(id)) }
        })
        return { status: 200, body }
      },
    }),

    route({
      method: 'PATCH',
      path: '/api/v1/reseller/customers/{id}',
      operationId: 'updateResellerCustomer',
      summary: 'Label a customer',
      description:
        'Sets your label of the customer and the chat in which your messaging bot reaches it. The empty text takes either away; what is left out stays.',
      tag: 'Resellers',
      access: 'buy',
      writes: true,
      params,
      body: z.strictObject({
        label: z.string().max(maxLabelLength).optional(),
        bot_chat_id: z
          .string()
          .regex(/^(-?\d{1,20}|@[A-Za-z0-9_]{5,32}|)$/)
          .optional()
          .meta({
            description: 'The number of a chat, or @name of a channel.',
            words: 'the number of a chat such as 123456789, the @name of a channel, or the empty text',
          }),
      }),
      examples: { ...examples, body: { label: 'Alice', bot_chat_id: '123456789' } },
      responses: { 200: { description: 'The customer.', body: ResellerCustomer, example: customerExample } },
      errors: ['reseller_forbidden', 'not_found'],
      handler: async ({ caller, params: { id }, body, after }) => {
        resellerOnly(caller)
        await reads.settled(caller.accountId, after ?? 0)
        const { label, bot_chat_id: chatId } = body
        const customer = await changeCustomer(pool, caller.accountId, id, {
          ...(label !== undefined && { label: label || null }),
          ...(chatId !== undefined && { chatId: chatId || null }),
        })
        if (!customer) throw none()
        const rows = await rowsOf(caller.accountId, [id])
        return { status: 200, body: customerRecord(customer, rows.get(id)) }
      },
    }),
  ]
}
