import { isIPv4 } from 'node:net'
import type pg from 'pg'
import { depositsAfter, depositsOfPayment } from '../../../projections/deposits.ts'
import { ordersAfter } from '../../../projections/orders.ts'
import { plansAfter } from '../../../projections/plans.ts'
import { type AddressRental, rentalsOfAddress } from '../../../projections/proxies.ts'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import { addressFold } from '../../domain/stock/fold.ts'
import { canonicalIp } from '../../kernel/ip-address.ts'
import { parsePosition } from '../../kernel/log-position.ts'
import { wholeAccount } from '../../kernel/scopes.ts'
import { addressStream } from '../../kernel/streams.ts'
import { readStreamState } from '../../platform/commands/command.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { CaughtUp } from '../../platform/projections/read-your-writes.ts'
import { fieldOf } from '../../platform/ui/form.ts'
import type { View } from '../../platform/ui/frame.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import {
  type ConsolePage,
  goTo,
  type PageOutcome,
  type PersonVisit,
  personPage,
  type Role,
  type ShownAccount,
} from '../../platform/ui/page.ts'
import { stateColumn, tableOf } from '../../platform/ui/table.ts'
import { dollarText, idText, timeText } from '../../platform/ui/text.ts'
import {
  accountsAfter,
  customersAfter,
  emailsOf,
  type FindAccount,
  resellerOfCustomer,
} from '../accounts/index.ts'
import { productName } from '../catalog/index.ts'
import { linkedText, resourceIds, resourceKind } from '../finance/index.ts'
import { productSearch } from '../orders/index.ts'

const maxLength = 254
/** The maximum number of results of one kind. */
const maxResults = 10

const staffHint = `A part of an e-mail address, the reference of a payment, an address such as 203.0.113.7, a position such as pos_0_1284, or an id: acc_, cus_, ${resourceIds}.`
const accountHint = 'An id or its beginning, a product, a label, a customer, or the reference of a payment.'

type SearchReads = {
  readonly pool: pg.Pool
  readonly db: Db
  readonly log: Pick<EventLog, 'readStream'>
  readonly caughtUp: CaughtUp
  readonly catalog: { current(): Pick<Catalog, 'products' | 'resolve'> }
  readonly findAccount: FindAccount
}

type Result = {
  readonly kind: string
  readonly text: string
  readonly href: string
  readonly note?: string | null
}

/** The results, or the next page if there is only one. */
const resultsOf = (results: readonly Result[]): Html | PageOutcome | null => {
  const [first] = results
  if (first === undefined) return null
  if (results.length === 1) return goTo(first.href)
  return tableOf({
    caption: 'Results',
    rows: results,
    columns: [
      { title: 'Result', head: true, cell: ({ text, href }) => html`<a href="${href}">${text}</a>` },
      { title: 'Kind', place: 'plain', cell: ({ kind }) => kind },
      { title: 'Details', place: 'plain', cell: ({ note }) => note ?? null },
    ],
  })
}

/** The stock state of an address and its rentals, for reports of abuse at a past time. */
const addressResult = async (
  { db, pool, log, caughtUp }: SearchReads,
  ip: string,
  roles: ReadonlySet<Role>,
): Promise<Html> => {
  await caughtUp()
  const [{ state }, rentals] = await Promise.all([
    readStreamState(log, { stream: addressStream(ip), fold: addressFold }),
    rentalsOfAddress(db, ip),
  ])
  const emails = await emailsOf(
    pool,
    rentals.map(({ accountId }) => accountId),
  )
  return html`<h2>${ip}</h2>
<p>${
    state === null
      ? 'This address was never in stock.'
      : `In stock of ${state.productId} in ${state.country}${state.retired ? ', retired.' : '.'}`
  }</p>
${tableOf({
  caption: `Rentals of ${ip}, newest first`,
  rows: rentals,
  empty: 'It was never rented.',
  columns: [
    {
      title: 'Account',
      head: true,
      cell: ({ accountId }) => html`${emails.get(accountId) ?? null} ${linkedText(accountId, roles)}`,
    },
    stateColumn<AddressRental>('State', ({ current }) => (current ? ['current', 'good'] : ['ended', 'off'])),
    { title: 'From', cell: ({ from }) => timeText(from) },
    { title: 'Until', cell: ({ until }) => timeText(until) },
    { title: 'Order', cell: ({ orderId }) => linkedText(orderId, roles) },
    { title: 'Rental', cell: ({ proxyId }) => linkedText(proxyId, roles) },
  ],
})}`
}

/** Searches all accounts. Null: nothing was found. */
const searchAsStaff = async (
  reads: SearchReads,
  query: string,
  roles: ReadonlySet<Role>,
): Promise<Html | PageOutcome | null> => {
  const { pool, db, findAccount, caughtUp } = reads
  const accountPath = (accountId: string): string =>
    roles.has('operator')
      ? `/console/operator/accounts/${accountId}`
      : `/console/finance/account?name=${accountId}`
  const exact = query.includes('@') || query.startsWith('acc_') ? await findAccount(query) : null
  if (exact !== null) return goTo(accountPath(exact))
  if (query.startsWith('acc_')) return null
  if (/^ord_[0-9a-f]{32}$/.test(query)) return goTo(`/console/operator/orders/${query}`)
  if (query.startsWith('cus_')) {
    const reseller = await resellerOfCustomer(pool, query)
    return reseller && html`<p>${idText(query)} is a customer of ${linkedText(reseller, roles)}.</p>`
  }
  // An address that no product may sell can be an address of the sandbox.
  const ip = canonicalIp(query) ?? (isIPv4(query) ? query : null)
  if (ip !== null) return addressResult(reads, ip, roles)
  if (resourceKind(query) !== null || parsePosition(query) !== null)
    return goTo(`/console/trail/${encodeURIComponent(query)}`)
  await caughtUp()
  const [accounts, deposits] = await Promise.all([
    accountsAfter(pool, { after: null, limit: maxResults, search: query }),
    depositsOfPayment(db, null, query),
  ])
  return resultsOf([
    ...accounts.map(({ accountId, email, reseller }) => ({
      kind: reseller ? 'Reseller' : 'Customer',
      text: email ?? accountId,
      href: accountPath(accountId),
    })),
    ...deposits.map(({ depositId, amountCents }) => ({
      kind: 'Deposit',
      text: `Deposit of ${dollarText(amountCents)}`,
      href: `/console/operator/deposits/${depositId}`,
    })),
  ])
}

/** The pages of an account's resources, by the prefix of their ids. */
const accountPaths: Readonly<Record<string, string>> = {
  ord: '/console/orders',
  dep: '/console/deposits',
  pln: '/console/plans',
  prx: '/console/addresses',
  sub: '/console/subscriptions',
  whs: '/console/webhooks',
  key: '/console/keys',
  cus: '/console/reseller/customers',
}

/** Searches one account. Null: nothing was found. */
const searchInAccount = async (
  { pool, db, catalog }: SearchReads,
  query: string,
  { accountId, reseller }: ShownAccount,
  nowMs: number,
): Promise<Html | PageOutcome | null> => {
  const [, prefix = ''] = /^([a-z]{3})_[0-9a-f]{32}$/.exec(query) ?? []
  const root = accountPaths[prefix]
  if (root !== undefined) return goTo(`${root}/${query}`)
  const scope = wholeAccount(accountId)
  const page = { after: null, limit: maxResults }
  const search = productSearch(catalog, query)
  const [orders, plans, deposits, payments, customers] = await Promise.all([
    ordersAfter(db, scope, { ...page, search }, nowMs),
    plansAfter(db, scope, { ...page, status: undefined, search }, nowMs),
    depositsAfter(db, scope, { ...page, status: undefined, search: query }),
    depositsOfPayment(db, accountId, query),
    reseller ? customersAfter(pool, accountId, { ...page, search: query }) : [],
  ])
  const nameOf = (productId: string): string => productName(catalog, productId)
  return resultsOf([
    ...customers.map(({ customerId, ref, label }) => ({
      kind: 'Customer',
      text: ref ?? customerId,
      href: `/console/reseller/customers/${customerId}`,
      note: label,
    })),
    ...plans.map(({ planId, productId, label }) => ({
      kind: 'Plan',
      text: nameOf(productId),
      href: `/console/plans/${planId}`,
      note: label,
    })),
    ...orders.map(({ details: { orderId, productId, quantity, unit, amountCents } }) => ({
      kind: 'Order',
      text: `${nameOf(productId)}, ${quantity} ${unit}`,
      href: `/console/orders/${orderId}`,
      note: dollarText(amountCents),
    })),
    ...[...deposits, ...payments].map(({ depositId, amountCents }) => ({
      kind: 'Deposit',
      text: `Deposit of ${dollarText(amountCents)}`,
      href: `/console/deposits/${depositId}`,
    })),
  ])
}

/** The page that finds orders, customers, payments and other resources. */
export const searchPages = (reads: SearchReads): readonly ConsolePage[] => {
  const search = async (visit: PersonVisit): Promise<View | PageOutcome> => {
    const query = (visit.query.get('q') ?? '').trim().slice(0, maxLength)
    const { roles, account } = visit.visitor
    const hint = account === null ? staffHint : accountHint
    const found =
      query === '' || (account === null && roles.size === 0)
        ? null
        : account === null
          ? await searchAsStaff(reads, query, roles)
          : await searchInAccount(reads, query, account, visit.nowMs)
    if (found !== null && 'kind' in found) return found
    const problems = query !== '' && found === null ? { q: `Nothing was found. ${hint}` } : {}
    const field = {
      name: 'q',
      label: 'Search for',
      hint,
      type: 'search',
      maxlength: maxLength,
      value: query,
    } as const
    return {
      title: 'Search',
      body: html`<form method="get" action="/console/search" class="stack" role="search" aria-label="Search again">
${fieldOf({ ...field, required: true }, { ...visit.form, problems })}
<div class="actions"><button class="first">Search</button></div>
</form>
${found ?? nothing}`,
      cliEquivalents: ['bin/farebox accounts show EMAIL_OR_ID', 'bin/farebox ledger explain ID_OR_POSITION'],
    }
  }

  return [
    personPage({
      path: '/console/search',
      name: 'searchAnything',
      summary: 'Finds orders, customers, payments and other resources',
      show: search,
    }),
  ]
}
