import { isIPv4 } from 'node:net'
import type pg from 'pg'
import { rentalsAt } from '../../../projections/proxies.ts'
import { addressFold } from '../../domain/stock/fold.ts'
import { canonicalIp } from '../../kernel/ip-address.ts'
import { parsePosition } from '../../kernel/log-position.ts'
import { addressStream } from '../../kernel/streams.ts'
import { readStreamState } from '../../platform/commands/command.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { CaughtUp } from '../../platform/projections/read-your-writes.ts'
import { emptyFormInput, fieldOf } from '../../platform/ui/form.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import {
  type ConsolePage,
  goTo,
  type PageOutcome,
  type PersonVisit,
  personPage,
  show,
} from '../../platform/ui/page.ts'
import { tableOf } from '../../platform/ui/table.ts'
import { idText, timeText } from '../../platform/ui/text.ts'
import { type FindAccount, resellerOfCustomer } from '../accounts/index.ts'
import { linkedText, resourceIds, resourceKind } from '../finance/index.ts'

const maxLength = 254

const acceptedHint = `An e-mail, an address such as 203.0.113.7, a position such as pos_0_1284, or an id: acc_, cus_, ${resourceIds}.`

const searchView = (query: string, resultHtml: Html, problem: string | null) => ({
  title: 'Search',
  body: html`<form method="get" action="/console/operator/search" class="stack" role="search">
${fieldOf({ name: 'q', label: 'What you have', hint: acceptedHint, type: 'search', required: true, maxlength: maxLength, value: query }, emptyFormInput, problem === null ? {} : { q: problem })}
<div class="acts"><button class="first">Search</button></div>
</form>
${resultHtml}`,
  same: [
    'npx farebox accounts show EMAIL_OR_ID',
    'npx farebox ledger explain ID_OR_POSITION',
    'npx farebox orders show ORDER',
  ],
})

type SearchReads = {
  readonly pool: pg.Pool
  readonly db: Db
  readonly log: Pick<EventLog, 'readStream'>
  readonly findAccount: FindAccount
  readonly caughtUp: CaughtUp
}

/** The stock state of an address and its current rentals. */
const address = async (
  { db, log, caughtUp }: Omit<SearchReads, 'findAccount'>,
  ip: string,
  visit: PersonVisit,
): Promise<Html> => {
  await caughtUp()
  const [{ state }, rentals] = await Promise.all([
    readStreamState(log, { stream: addressStream(ip), fold: addressFold }),
    rentalsAt(db, ip),
  ])
  const { roles } = visit.visitor
  return html`<h2>${ip}</h2>
<p>${
    state === null
      ? 'It was never in stock.'
      : `In stock of ${state.productId} in ${state.country}${state.retired ? ', retired.' : '.'}`
  }</p>
${tableOf({
  caption: `Who rents ${ip} now`,
  rows: rentals,
  empty: html`<p>Nobody rents it now.</p>`,
  columns: [
    { title: 'Rental', head: true, cell: ({ proxyId }) => linkedText(proxyId, roles) },
    { title: 'Account', cell: ({ accountId }) => linkedText(accountId, roles) },
    { title: 'Order', cell: ({ orderId }) => linkedText(orderId, roles) },
    { title: 'Since', cell: ({ createdAt }) => timeText(createdAt) },
    { title: 'Until', cell: ({ expiresAt }) => timeText(expiresAt) },
  ],
})}`
}

const search = async (services: SearchReads, visit: PersonVisit): Promise<PageOutcome> => {
  const query = (visit.query.get('q') ?? '').trim().slice(0, maxLength)
  const noResult = (problem: string): PageOutcome => show(searchView(query, nothing, problem))
  if (query === '') return show(searchView('', nothing, null))
  if (query.includes('@') || query.startsWith('acc_')) {
    const accountId = await services.findAccount(query)
    return accountId === null
      ? noResult('No account has this id or e-mail.')
      : goTo(`/console/operator/accounts/${accountId}`)
  }
  if (/^ord_[0-9a-f]{32}$/.test(query)) return goTo(`/console/operator/orders/${query}`)
  if (query.startsWith('cus_')) {
    const reseller = await resellerOfCustomer(services.pool, query)
    return reseller === null
      ? noResult('No customer of a reseller has this id.')
      : show(
          searchView(
            query,
            html`<p>${idText(query)} is a customer of ${linkedText(reseller, visit.visitor.roles)}.</p>`,
            null,
          ),
        )
  }
  // An address that no product may sell can be an address of the sandbox.
  const ip = canonicalIp(query) ?? (isIPv4(query) ? query : null)
  if (ip !== null) return show(searchView(query, await address(services, ip, visit), null))
  if (resourceKind(query) !== null || parsePosition(query) !== null)
    return goTo(`/console/trail/${encodeURIComponent(query)}`)
  return noResult(`This is nothing that can be searched for. ${acceptedHint}`)
}

/** The page that finds a resource by an id, an e-mail, an address or a position. */
export const searchPages = (services: SearchReads): readonly ConsolePage[] => [
  personPage({
    path: '/console/operator/search',
    name: 'searchAnything',
    summary: 'Finds an account, an order or a thing by its id, an e-mail or an address',
    for: ['operator'],
    nav: { label: 'Search', group: 'Operator' },
    show: (visit) => search(services, visit),
  }),
]
