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
import { fieldOf } from '../../platform/ui/form.ts'
import type { View } from '../../platform/ui/frame.ts'
import { type Html, html } from '../../platform/ui/html.ts'
import {
  type ConsolePage,
  goTo,
  operatorPage,
  type PageOutcome,
  type PersonVisit,
  type Role,
} from '../../platform/ui/page.ts'
import { tableOf } from '../../platform/ui/table.ts'
import { idText, timeText } from '../../platform/ui/text.ts'
import { type FindAccount, resellerOfCustomer } from '../accounts/index.ts'
import { linkedText, resourceIds, resourceKind } from '../finance/index.ts'

const maxLength = 254

const acceptedHint = `An e-mail address, an address such as 203.0.113.7, a position such as pos_0_1284, or an id: acc_, cus_, ${resourceIds}.`

type SearchReads = {
  readonly pool: pg.Pool
  readonly db: Db
  readonly log: Pick<EventLog, 'readStream'>
  readonly caughtUp: CaughtUp
}

/** The stock state of an address and its current rentals. */
const addressResult = async (
  { db, log, caughtUp }: SearchReads,
  ip: string,
  roles: ReadonlySet<Role>,
): Promise<Html> => {
  await caughtUp()
  const [{ state }, rentals] = await Promise.all([
    readStreamState(log, { stream: addressStream(ip), fold: addressFold }),
    rentalsAt(db, ip),
  ])
  return html`<h2>${ip}</h2>
<p>${
    state === null
      ? 'This address was never in stock.'
      : `In stock of ${state.productId} in ${state.country}${state.retired ? ', retired.' : '.'}`
  }</p>
${tableOf({
  caption: `Current rentals of ${ip}`,
  rows: rentals,
  empty: 'It has no current rental.',
  columns: [
    { title: 'Rental', head: true, cell: ({ proxyId }) => linkedText(proxyId, roles) },
    { title: 'Account', cell: ({ accountId }) => linkedText(accountId, roles) },
    { title: 'Order', cell: ({ orderId }) => linkedText(orderId, roles) },
    { title: 'Since', cell: ({ createdAt }) => timeText(createdAt) },
    { title: 'Until', cell: ({ expiresAt }) => timeText(expiresAt) },
  ],
})}`
}

/** The page that finds a resource by an id, an e-mail, an address or a position. */
export const searchPages = ({
  findAccount,
  ...reads
}: SearchReads & { readonly findAccount: FindAccount }): readonly ConsolePage[] => {
  const search = async (visit: PersonVisit): Promise<View | PageOutcome> => {
    const query = (visit.query.get('q') ?? '').trim().slice(0, maxLength)
    const { roles } = visit.visitor
    const view = (result: Html | null, problem?: string): View => {
      const field = {
        name: 'q',
        label: 'Search for',
        hint: acceptedHint,
        type: 'search',
        required: true,
        maxlength: maxLength,
        value: query,
      } as const
      return {
        title: 'Search',
        body: html`<form method="get" action="/console/operator/search" class="stack" role="search">
${fieldOf(field, { ...visit.form, problems: problem === undefined ? {} : { q: problem } })}
<div class="actions"><button class="first">Search</button></div>
</form>
${result}`,
        cliEquivalents: [
          'npx farebox accounts show EMAIL_OR_ID',
          'npx farebox ledger explain ID_OR_POSITION',
          'npx farebox orders show ORDER',
        ],
      }
    }
    if (query === '') return view(null)
    if (query.includes('@') || query.startsWith('acc_')) {
      const accountId = await findAccount(query)
      return accountId === null
        ? view(null, 'No account has this id or e-mail address.')
        : goTo(`/console/operator/accounts/${accountId}`)
    }
    if (/^ord_[0-9a-f]{32}$/.test(query)) return goTo(`/console/operator/orders/${query}`)
    if (query.startsWith('cus_')) {
      const reseller = await resellerOfCustomer(reads.pool, query)
      return reseller === null
        ? view(null, 'No customer of a reseller has this id.')
        : view(html`<p>${idText(query)} is a customer of ${linkedText(reseller, roles)}.</p>`)
    }
    // An address that no product may sell can be an address of the sandbox.
    const ip = canonicalIp(query) ?? (isIPv4(query) ? query : null)
    if (ip !== null) return view(await addressResult(reads, ip, roles))
    if (resourceKind(query) !== null || parsePosition(query) !== null)
      return goTo(`/console/trail/${encodeURIComponent(query)}`)
    return view(null, `This cannot be searched for. ${acceptedHint}`)
  }

  return [
    operatorPage({
      path: '/console/operator/search',
      name: 'searchAnything',
      summary: 'Finds a resource by its id, an e-mail address or an IP address',
      nav: { label: 'Search', group: 'Operator' },
      show: search,
    }),
  ]
}
