import type pg from 'pg'
import { ordersAfter } from '../../../projections/orders.ts'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import { externalIdForm, parseExternalId } from '../../kernel/external-id.ts'
import { wholeAccount } from '../../kernel/scopes.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import { emptyFormInput, type FormInput, fieldOf, type Problems, problemsOf } from '../../platform/ui/form.ts'
import { type Html, html } from '../../platform/ui/html.ts'
import {
  type AccountVisit,
  accountPage,
  type ConsolePage,
  goTo,
  refusedView,
  type ShownAccount,
  show,
} from '../../platform/ui/page.ts'
import { pagedOf, pageRows, pagerOf, tableOf } from '../../platform/ui/table.ts'
import { afterOf, afterText, amountText, dollarText, idText, timeText } from '../../platform/ui/text.ts'
import {
  type ChatSigner,
  type CustomerRecord,
  type Customers,
  changeCustomer,
  customersAfter,
  findCustomer,
} from '../accounts/index.ts'
import { orderColumns } from '../orders/index.ts'
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

type CustomerReads = {
  readonly pool: pg.Pool
  readonly db: Db
  readonly reads: Pick<Reads, 'settled'>
  readonly customers: Pick<Customers, 'idOf'>
  readonly chats: ChatSigner
  readonly catalog: { current(): Pick<Catalog, 'resolve'> }
}

const list = async (
  { pool, db, reads, customers }: Omit<CustomerReads, 'catalog' | 'chats'>,
  { account, query }: AccountVisit,
) => {
  const { accountId } = account
  const refText = (query.get('ref') ?? '').trim()
  const before = query.get('before')
  await reads.settled(accountId)
  const ref = refText === '' ? null : parseExternalId(refText)
  const matchingCustomer =
    ref === null ? null : await findCustomer(pool, accountId, customers.idOf(accountId, ref))
  const found =
    refText === ''
      ? await customersAfter(pool, accountId, { after: before, limit: pageRows + 1 })
      : matchingCustomer === null
        ? []
        : [matchingCustomer]
  const page = pagedOf(found, ({ customerId }) => customerId)
  const rows = await customerRecords(db, accountId, page.rows)
  return show({
    title: 'Customers',
    body: html`<form method="get" action="${root}" class="filters" role="search"><span><label for="ref">Your own id of a customer</label> <input id="ref" name="ref" value="${refText.slice(0, 100)}" size="16" maxlength="100"></span> <button>Find</button></form>
<h2 class="skip">The list</h2>
${tableOf({
  caption: 'Your customers, newest first',
  rows,
  empty:
    refText !== ''
      ? html`<p>${ref === null ? `An own id is ${externalIdForm}.` : 'You have no customer with this id.'} <a href="${root}">Show all</a></p>`
      : html`<p>${before === null ? 'The first deposit or order for a customer makes it.' : 'Nothing is older.'}</p>`,
  columns: [
    {
      title: 'Customer',
      head: true,
      cell: ({ customerId, customer, label }) =>
        html`<a href="${root}/${customerId}">${customer ?? customerId}</a>${label === null ? null : html` <small>${label}</small>`}`,
    },
    { title: 'Credit, USD', number: true, cell: ({ creditCents }) => amountText(creditCents) },
    { title: 'Owes, USD', number: true, cell: ({ owedCents }) => amountText(owedCents) },
    { title: 'Orders', number: true, cell: ({ totals }) => String(totals.orders) },
    { title: 'Revenue, USD', number: true, cell: ({ totals }) => amountText(totals.revenueCents) },
    { title: 'Margin, USD', number: true, cell: ({ totals }) => amountText(totals.marginCents) },
    { title: 'Since', cell: ({ createdAt }) => timeText(createdAt) },
  ],
})}
${pagerOf(root, {}, { before, next: page.next })}`,
    same: ['curl $API/reseller/customers -H "X-API-Key: $KEY"'],
  })
}

const fact = (name: string, value: Html | string): Html => html`<dt>${name}</dt><dd>${value}</dd>\n`

const customerView = async (
  { pool, db, reads, catalog }: Omit<CustomerReads, 'customers' | 'chats'>,
  visit: AccountVisit,
  typed: FormInput,
  problems: Problems,
) => {
  const { account, params, query, nowMs } = visit
  const { accountId } = account
  await reads.settled(accountId)
  const customerEntry = await customerIn(pool, account, params.id ?? '')
  const [record] = await customerRecords(db, accountId, [customerEntry])
  if (record === undefined) throw refuse('not_found', 'you have no customer with this id')
  const { customerId, customer, creditCents, owedCents, totals, createdAt } = record
  const before = query.get('before')
  const after = afterOf(before)
  const found = await ordersAfter(
    db,
    { ...wholeAccount(accountId), customerId: customerEntry.customerId },
    { status: undefined, after, limit: pageRows + 1 },
    nowMs,
  )
  const { rows, next } = pagedOf(found, ({ details }) => afterText(details.createdAt, details.orderId))
  const path = `${root}/${customerId}`
  return {
    title: customerEntry.label ?? customer ?? 'A customer',
    acts: html`<a class="button first" href="/console/reseller/statement?customer=${customerId}">Statement</a>`,
    body: html`${problemsOf(problems)}<dl class="facts">
${fact('Customer', idText(customerId))}
${fact('Your own id', customer === null ? html`<span class="soft">erased</span>` : idText(customer))}
${fact('Credit', dollarText(creditCents))}
${fact('Owes', dollarText(owedCents))}
${fact('Paid at your gateways', dollarText(totals.depositedCents))}
${fact('Revenue', dollarText(totals.revenueCents))}
${fact('Your cost', dollarText(totals.costCents))}
${fact('Margin', dollarText(totals.marginCents))}
${fact('Since', timeText(createdAt))}
</dl>
<h2>Orders</h2>
${tableOf({
  caption: 'Orders for this customer, newest first',
  rows,
  columns: orderColumns(catalog, account),
  empty: html`<p>${after === null ? 'Nothing was ordered for it yet.' : 'Nothing is older.'}</p>`,
})}
${pagerOf(path, {}, { before: after === null ? null : before, next })}
<h2>Your words for it</h2>
<form method="post" action="${path}" class="stack" novalidate>
${fieldOf({ name: 'label', label: 'Label', hint: 'Empty: none.', maxlength: maxLabelLength, value: customerEntry.label ?? '' }, typed, problems)}
${fieldOf({ name: 'chat', label: 'Chat of your bot', hint: 'Where your messaging bot reaches it: a number, or @name of a channel. Empty: nowhere.', maxlength: 33, value: customerEntry.chatId ?? '' }, typed, problems)}
<div class="acts"><button>Keep</button></div>
</form>`,
    same: [
      `curl $API/reseller/customers/${customerId} -H "X-API-Key: $KEY"`,
      `curl -X PATCH $API/reseller/customers/${customerId} -H "X-API-Key: $KEY" --json '{"label": "Alice"}'`,
    ],
  }
}

const change = async (services: Omit<CustomerReads, 'customers'>, visit: AccountVisit, typed: FormInput) => {
  const { account, params } = visit
  const { customerId } = await customerIn(services.pool, account, params.id ?? '')
  const [label, chat] = [typed.text('label'), typed.text('chat')]
  const problems: Problems = {
    ...((label.length > maxLabelLength || /\p{Cc}/u.test(label)) && {
      label: `A label has at most ${maxLabelLength} characters, on one line.`,
    }),
    ...(!chatForm.test(chat) && {
      chat: 'Type the number of a chat such as 123456789, or the @name of a channel.',
    }),
  }
  if (Object.keys(problems).length > 0)
    return refusedView(await customerView(services, visit, typed, problems))
  await changeCustomer(services.pool, services.chats, account.accountId, customerId, {
    label: label || null,
    chatId: chat || null,
  })
  return goTo(`${root}/${customerId}`, 'Your words for it are kept.')
}

/** The customers of a reseller, with credit and revenue. */
export const resellerCustomerPages = (services: CustomerReads): readonly ConsolePage[] => [
  accountPage({
    path: root,
    name: 'listCustomers',
    summary: 'The customers of a reseller with their credit and totals',
    for: ['reseller'],
    nav: { label: 'Customers', group: 'Reseller' },
    show: (visit) => list(services, visit),
  }),
  accountPage({
    path: '/console/reseller/customers/{id}',
    name: 'showCustomer',
    summary: 'One customer of a reseller with its orders',
    for: ['reseller'],
    show: async (visit) => show(await customerView(services, visit, emptyFormInput, {})),
    act: { run: (visit, typed) => change(services, visit, typed) },
  }),
]
