import type pg from 'pg'
import { z } from 'zod'
import { externalIdForm, parseExternalId } from '../../kernel/external-id.ts'
import type { AccountId, CustomerId } from '../../kernel/ids.ts'
import type { AccountScope as Scope } from '../../kernel/scopes.ts'
import type { Caller } from '../../platform/http/auth.ts'
import { refuse } from '../../platform/http/errors.ts'
import { pageShape, pagingCodes, pagingQuery } from '../../platform/http/query.ts'
import { type Route, route } from '../../platform/http/route.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import {
  type ChatSigner,
  type CustomerRecord,
  type Customers,
  changeCustomer,
  findCustomer,
  listCustomers,
} from '../accounts/index.ts'
import {
  chatForm,
  customerExample,
  customerRecords,
  maxLabelLength,
  ResellerCustomer,
} from './customer-record.ts'

const params = z.object({ id: z.string() })
const examples = { params: { id: customerExample.customerId } }

/** @throws reseller_forbidden if the account is not a reseller */
export const resellerOnly = ({ reseller }: Caller): void => {
  if (!reseller) throw refuse('reseller_forbidden', 'this is for reseller keys only')
}

const customerNotFound = () => refuse('not_found', 'you have no customer with this id')

/** A reseller's customers: docs/reference/api.md, "Resellers and finance". */
export const resellerCustomerRoutes = (dependencies: {
  readonly reads: Pick<Reads, 'settled'>
  readonly db: Db
  readonly pool: pg.Pool
  readonly customers: Pick<Customers, 'idOf'>
  readonly chats: ChatSigner
}): readonly Route[] => {
  const { reads, db, pool, customers, chats } = dependencies

  const recordOf = async (reseller: AccountId, customer: CustomerRecord) =>
    (await customerRecords(db, reseller, [customer]))[0]!

  /** A customer by our id, if the request may see it; null for a missing one and for another reseller's. */
  const customerOf = async ({ accountId, customerId }: Scope, id: string): Promise<CustomerRecord | null> =>
    customerId === null || customerId === id ? findCustomer(pool, accountId, id) : null

  /** @throws invalid_customer_id: not an id, or not the only customer that the request may use */
  const customerFilter = (
    { accountId, customerId }: Scope,
    refText: string | undefined,
  ): CustomerId | null => {
    if (refText === undefined) return customerId
    const ref = parseExternalId(refText)
    if (ref === null) throw refuse('invalid_customer_id', `customer must be ${externalIdForm}`)
    const onlyCustomerId = customers.idOf(accountId, ref)
    if (customerId !== null && customerId !== onlyCustomerId)
      throw refuse('invalid_customer_id', 'customer names another customer than the rest of the request')
    return onlyCustomerId
  }

  return [
    route({
      method: 'GET',
      path: '/api/v1/reseller/customers',
      operationId: 'listResellerCustomers',
      summary: 'List your customers',
      description:
        'Your customers with their credit and totals, newest first. The first deposit or order for a customer creates the customer.',
      tag: 'Resellers',
      access: 'buy',
      writes: false,
      customer: 'limits',
      query: z.object({
        ...pagingQuery,
        customer: z
          .string()
          .optional()
          .meta({
            description: 'The id of the customer, as in `customer_id`.',
            override: { type: 'string', minLength: 1, maxLength: 128 },
          }),
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
      handler: async ({ caller, scope, query, after }) => {
        resellerOnly(caller)
        const { accountId } = caller
        const { limit, offset, customer } = query
        const onlyCustomerId = customerFilter(scope, customer)
        await reads.settled(accountId, after ?? 0)
        const page =
          onlyCustomerId === null
            ? await listCustomers(pool, accountId, { limit, offset })
            : await customerOf(scope, onlyCustomerId).then((found) => ({
                customers: found === null || offset > 0 ? [] : [found],
                total: found === null ? 0 : 1,
              }))
        const records = await customerRecords(db, accountId, page.customers)
        return { status: 200, body: { customers: [...records], total: page.total, limit, offset } }
      },
    }),

    route({
      method: 'GET',
      path: '/api/v1/reseller/customers/{id}',
      operationId: 'getResellerCustomer',
      summary: 'Read a customer',
      description:
        'One customer with its credit and totals. The request names the customer by the id in orders and deposits.',
      tag: 'Resellers',
      access: 'buy',
      writes: false,
      customer: 'limits',
      params,
      examples,
      responses: { 200: { description: 'The customer.', body: ResellerCustomer, example: customerExample } },
      errors: ['reseller_forbidden', 'not_found'],
      handler: async ({ caller, scope, params: { id }, after }) => {
        resellerOnly(caller)
        await reads.settled(scope.accountId, after ?? 0)
        const customer = await customerOf(scope, id)
        if (!customer) throw customerNotFound()
        return { status: 200, body: await recordOf(scope.accountId, customer) }
      },
    }),

    route({
      method: 'PATCH',
      path: '/api/v1/reseller/customers/{id}',
      operationId: 'updateResellerCustomer',
      summary: 'Label a customer',
      description:
        'Sets your label of the customer and the chat in which your messaging bot reaches the customer. An empty text removes the label or the chat. A field that is left out does not change.',
      tag: 'Resellers',
      access: 'buy',
      writes: true,
      customer: 'limits',
      params,
      body: z.strictObject({
        label: z.string().max(maxLabelLength).optional(),
        bot_chat_id: z.string().regex(chatForm).optional().meta({
          description: 'The number of a chat, or the @name of a channel.',
          words: 'the number of a chat such as 123456789, the @name of a channel, or the empty text',
        }),
      }),
      examples: { ...examples, body: { label: 'Alice', bot_chat_id: '123456789' } },
      responses: { 200: { description: 'The customer.', body: ResellerCustomer, example: customerExample } },
      errors: ['reseller_forbidden', 'not_found'],
      handler: async ({ caller, scope, params: { id }, body, after }) => {
        resellerOnly(caller)
        await reads.settled(caller.accountId, after ?? 0)
        if (!(await customerOf(scope, id))) throw customerNotFound()
        const { label, bot_chat_id: chatId } = body
        const customer = await changeCustomer(pool, chats, caller.accountId, id, {
          ...(label !== undefined && { label: label || null }),
          ...(chatId !== undefined && { chatId: chatId || null }),
        })
        if (!customer) throw customerNotFound()
        return { status: 200, body: await recordOf(caller.accountId, customer) }
      },
    }),
  ]
}
