import type pg from 'pg'
import { ordersAfter } from '../../../projections/orders.ts'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import { wholeAccount } from '../../kernel/scopes.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import { fieldOf, formOf, problemsIn } from '../../platform/ui/form.ts'
import { html } from '../../platform/ui/html.ts'
import { listOf, listPage } from '../../platform/ui/list.ts'
import {
  type AccountVisit,
  type ConsolePage,
  goTo,
  refused,
  resellerPage,
  type ShownAccount,
} from '../../platform/ui/page.ts'
import {
  amountColumn,
  countColumn,
  detailsOf,
  idColumn,
  nameColumn,
  timeColumn,
} from '../../platform/ui/table.ts'
import { afterText, buttonLink, dollarText, idText, softText, timeText } from '../../platform/ui/text.ts'
import {
  type ChatSigner,
  type CustomerRecord,
  changeCustomer,
  customersAfter,
  findCustomer,
} from '../accounts/index.ts'
import { orderColumns } from '../orders/index.ts'
import { movementPath } from './customer-money.ts'
import { chatForm, customerRecords, maxLabelLength } from './customer-record.ts'

/** The reseller's customer with this id. @throws not_found, for a missing customer and for another reseller's alike */
export const customerIn = async (
  pool: pg.Pool,
  { accountId }: ShownAccount,
  customerId: string,
): Promise<CustomerRecord> => {
  const found = await findCustomer(pool, accountId, customerId)
  if (found === null) throw refuse('not_found', 'you have no customer with this id')
  return found
}

const root = '/console/reseller/customers'

/** The customers of a reseller, with credit and revenue. */
export const resellerCustomerPages = ({
  pool,
  db,
  reads,
  chats,
  catalog,
}: {
  readonly pool: pg.Pool
  readonly db: Db
  readonly reads: Pick<Reads, 'settled'>
  readonly chats: ChatSigner
  readonly catalog: { current(): Pick<Catalog, 'products' | 'resolve'> }
}): readonly ConsolePage[] => {
  const ownCustomer = ({ account, params }: AccountVisit) => customerIn(pool, account, params.id ?? '')

  return [
    listPage(resellerPage, {
      path: root,
      name: 'listCustomers',
      summary: 'The customers of a reseller with their credit and totals',
      title: 'Customers',
      actions: buttonLink(movementPath({}), 'Credit or refund'),
      caption: 'Your customers, newest first',
      search: 'Your id or label',
      file: 'customers',
      parseKey: (text: string | null) => text,
      load: async ({ account: { accountId } }, page) => {
        await reads.settled(accountId)
        return customerRecords(db, accountId, await customersAfter(pool, accountId, page))
      },
      keyOf: ({ customerId }) => customerId,
      columns: (_) => [
        nameColumn('Customer', ({ customerId, customer, label }) => ({
          text: customer ?? customerId,
          href: `${root}/${customerId}`,
          note: label,
        })),
        amountColumn('Credit', ({ creditCents }) => creditCents, { place: 'lead' }),
        amountColumn('Debt', ({ owedCents }) => owedCents),
        countColumn('Orders', ({ totals }) => totals.orders),
        amountColumn('Revenue', ({ totals }) => totals.revenueCents),
        amountColumn('Margin', ({ totals }) => totals.marginCents),
        timeColumn('Since', ({ createdAt }) => createdAt, { place: 'minor' }),
        idColumn('Customer id', ({ customerId }) => customerId, { place: 'file' }),
      ],
      empty: 'There are no customers yet. The first deposit or order for a customer creates it.',
      cliEquivalents: () => ['curl $API/reseller/customers -H "X-API-Key: $KEY"'],
    }),
    resellerPage({
      path: '/console/reseller/customers/{id}',
      name: 'showCustomer',
      summary: 'One customer of a reseller with its orders',
      show: async (visit) => {
        const { account, form, nowMs } = visit
        const { accountId } = account
        await reads.settled(accountId)
        const entry = await ownCustomer(visit)
        const [record] = await customerRecords(db, accountId, [entry])
        if (record === undefined) throw refuse('not_found', 'you have no customer with this id')
        const { customerId, customer, creditCents, owedCents, totals, createdAt } = record
        const scope = { ...wholeAccount(accountId), customerId: entry.customerId }
        const labelField = {
          name: 'label',
          label: 'Label',
          hint: 'Empty: none.',
          maxlength: maxLabelLength,
          value: entry.label ?? '',
        }
        const chatField = {
          name: 'chat',
          label: 'Chat of your bot',
          hint: 'The number of a chat, or the @name of a channel, for messages of your bot. Empty: none.',
          maxlength: 33,
          value: entry.chatId ?? '',
        }
        const orders = await listOf(visit, {
          caption: 'Orders for this customer, newest first',
          orderedBy: 'Ordered',
          file: 'orders',
          load: (_visit, { search: _, ...page }) => ordersAfter(db, scope, page, nowMs),
          keyOf: ({ details }) => afterText(details.createdAt, details.orderId),
          columns: (_) => orderColumns(catalog, { ...account, reseller: false }),
          empty: 'There are no orders yet.',
        })
        if (orders.file !== null) return orders.file
        return {
          title: entry.label ?? customer ?? 'Customer',
          actions: html`${buttonLink(movementPath({ customer: customer ?? customerId }), 'Credit or refund', 'first')}${buttonLink(`/console/reseller/statement?customer=${customerId}`, 'Statement')}${buttonLink(`/console/traffic-budgets?customer=${customerId}`, 'Traffic budgets')}${orders.fileLink}`,
          body: html`${detailsOf([
            ['Customer', idText(customerId)],
            ['Your customer id', customer === null ? softText('erased') : idText(customer)],
            ['Credit', dollarText(creditCents)],
            ['Debt', dollarText(owedCents)],
            ['Paid at your gateways', dollarText(totals.depositedCents)],
            ['Revenue', dollarText(totals.revenueCents)],
            ['Your cost', dollarText(totals.costCents)],
            ['Margin', dollarText(totals.marginCents)],
            ['Since', timeText(createdAt)],
          ])}
<h2>Orders</h2>
${orders.body}
<h2>Label and chat</h2>
${formOf(form, { fields: [fieldOf(labelField, form), fieldOf(chatField, form)], submit: 'Save', plain: true, action: visit.path })}`,
          cliEquivalents: [
            `curl $API/reseller/customers/${customerId} -H "X-API-Key: $KEY"`,
            `curl -X PATCH $API/reseller/customers/${customerId} -H "X-API-Key: $KEY" --json '{"label": "Alice"}'`,
          ],
        }
      },
      act: {
        run: async (visit, typed) => {
          const { customerId } = await ownCustomer(visit)
          const [label, chat] = [typed.text('label'), typed.text('chat')]
          const problems = problemsIn({
            label:
              (label.length > maxLabelLength || /\p{Cc}/u.test(label)) &&
              `A label has at most ${maxLabelLength} characters, on one line.`,
            chat:
              !chatForm.test(chat) &&
              'Type the number of a chat such as 123456789, or the @name of a channel.',
          })
          if (problems) return refused(problems)
          await changeCustomer(pool, chats, visit.account.accountId, customerId, {
            label: label || null,
            chatId: chat || null,
          })
          return goTo(`${root}/${customerId}`, 'Saved.')
        },
      },
    }),
  ]
}
