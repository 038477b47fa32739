import { type FoundProxy, findProxies } from '../../../projections/proxies.ts'
import { type Catalog, periodsOf } from '../../domain/catalog/catalog.ts'
import { isDedicated } from '../../domain/catalog/product.ts'
import { wholeAccount } from '../../kernel/scopes.ts'
import { ApiError, refuse } from '../../platform/http/errors.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import { refusalOf } from '../../platform/ui/answer-page.ts'
import {
  choicesOf,
  type FormInput,
  formOf,
  hiddenOf,
  type Problems,
  problemsOf,
} from '../../platform/ui/form.ts'
import type { View } from '../../platform/ui/frame.ts'
import { type Html, html } from '../../platform/ui/html.ts'
import { type AccountVisit, accountPage, type ConsolePage, goTo, refused } from '../../platform/ui/page.ts'
import { tableOf } from '../../platform/ui/table.ts'
import { countText, dollarText, timeText } from '../../platform/ui/text.ts'
import { payerOf, refusedPurchase } from '../orders/index.ts'
import { maxExtended, type RentalExtension, type RentalSelection } from './extend-rentals.ts'
import type { FindProxy } from './own-rentals.ts'
import { ownRowOf, root } from './proxy-pages.ts'

const usualDays = 30

/** Refusals that concern one period, not the rental. */
const periodRefusalCodes: ReadonlySet<string> = new Set([
  'invalid_period',
  'invalid_targeting',
  'invalid_country',
])

type Offer = { readonly days: number; readonly amountCents: number }

/** The rentals of an extension, all of one product, and the paths of the form. */
type Target = {
  readonly title: string
  readonly description: Html
  readonly rows: readonly FoundProxy[]
  readonly selection: RentalSelection
  /** The selection as a field of the API's request body. */
  readonly selectionJson: string
  readonly path: string
  readonly backPath: string
}

/** Extends a rental, or all running rentals of an order, by another period. */
export const extendPages = ({
  db,
  reads,
  catalog,
  findOwnProxy,
  extending,
}: {
  readonly db: Db
  readonly reads: Pick<Reads, 'settled'>
  readonly catalog: { current(): Pick<Catalog, 'resolve'> }
  readonly findOwnProxy: FindProxy
  readonly extending: RentalExtension
}): readonly ConsolePage[] => {
  const rentalTarget = async (visit: AccountVisit): Promise<Target> => {
    const row = await ownRowOf(findOwnProxy, visit)
    const backPath = `${root}/${row.proxyId}`
    return {
      title: `Extend ${row.ip}`,
      description: html`<p>The rental ends ${timeText(row.expiresAt)}. The extension starts then. The wallet pays.</p>`,
      rows: [row],
      selection: { proxyIds: [row.proxyId] },
      selectionJson: `"proxy_ids":["${row.proxyId}"]`,
      path: `${backPath}/extend`,
      backPath,
    }
  }

  const orderTarget = async ({ account, params, nowMs }: AccountVisit): Promise<Target> => {
    const orderId = params.id ?? ''
    const scope = wholeAccount(account.accountId)
    await reads.settled(account.accountId)
    const rows = await findProxies(db, scope, { orderId, status: 'running' }, nowMs, maxExtended + 1)
    if (rows.length === 0) throw refuse('not_found', 'no rental of this order runs')
    const backPath = `/console/orders/${orderId}`
    return {
      title: `Extend ${countText(rows.length, 'rental')}`,
      description: html`<p>All active rentals of the order are extended together, each from its own end, and paid as one order. The wallet pays.</p>
${tableOf({
  caption: 'Rentals to extend',
  rows,
  columns: [
    {
      title: 'Address',
      head: true,
      cell: ({ proxyId: id, ip, label }) =>
        html`<a href="${root}/${id}">${ip}</a>${label ? html`<br><small>${label}</small>` : null}`,
    },
    { title: 'Ends', cell: ({ expiresAt: at }) => timeText(at) },
  ],
})}`,
      rows,
      selection: { orderId },
      selectionJson: `"order_id":"${orderId}"`,
      path: `${backPath}/extend`,
      backPath,
    }
  }

  /** Each period that the rentals can be extended by, with its current price. */
  const offersOf = async (
    visit: AccountVisit,
    { rows: [row], selection }: Target,
  ): Promise<readonly Offer[]> => {
    const product = row && catalog.current().resolve(row.productId)
    if (!row || !product || !isDedicated(product)) return []
    const periods = periodsOf(product, row.country).toSorted((one, other) => one - other)
    const quoteRequest = { caller: payerOf(visit), scope: wholeAccount(visit.account.accountId) }
    const offers: Offer[] = []
    for (const days of periods)
      try {
        const { amountCents } = await extending.quote(quoteRequest, selection, days)
        offers.push({ days, amountCents })
      } catch (error) {
        // This line is not sold for the period, or the period ends too far in the future.
        if (!(error instanceof ApiError) || !periodRefusalCodes.has(error.code)) throw error
      }
    return offers
  }

  const view = async (visit: AccountVisit, target: Target): Promise<View> => {
    const { title, description, selectionJson, path, backPath } = target
    const { form } = visit
    let offers: readonly Offer[] = []
    let priceProblems: Problems = {}
    try {
      offers = await offersOf(visit, target)
    } catch (error) {
      priceProblems = { form: refusalOf(error).text }
    }
    const usual = offers.find(({ days }) => days === usualDays) ?? offers[0]
    return {
      title,
      body: html`${problemsOf(priceProblems)}
${description}
${
  usual === undefined
    ? html`<p class="empty">It cannot be extended now. <a href="${backPath}">Back</a></p>`
    : formOf(form, {
        fields: [
          ...offers.map(({ days, amountCents }) => hiddenOf(`price-${days}`, amountCents)),
          choicesOf(
            {
              name: 'days',
              legend: 'Extend by',
              one: true,
              chosen: [String(usual.days)],
              choices: offers.map(({ days, amountCents }) => ({
                value: String(days),
                label: countText(days, 'day'),
                hint: dollarText(amountCents),
              })),
            },
            form,
          ),
        ],
        submit: 'Pay and extend',
        back: backPath,
        action: path,
      })
}`,
      cliEquivalents: [
        `curl -X POST $API/proxies/extend -H "X-API-Key: $KEY" -H 'Content-Type: application/json' -d '{${selectionJson},"period_days":${usual?.days ?? usualDays}${usual === undefined ? '' : `,"expected_amount_cents":${usual.amountCents}`}}'`,
      ],
    }
  }

  const extend = async (visit: AccountVisit, target: Target, typed: FormInput) => {
    const days = typed.text('days')
    const price = typed.text(`price-${days}`)
    if (!/^\d{1,4}$/.test(days) || !/^\d{1,12}$/.test(price)) return refused({ days: 'Choose a period.' })
    try {
      const { order, replayed } = await extending.extend(
        {
          caller: payerOf(visit),
          scope: wholeAccount(visit.account.accountId),
          requestId: visit.requestId,
          idempotencyKey: typed.key,
          customerRef: null,
          path: visit.path,
          // The shown price. A different price is refused.
          body: { expected_amount_cents: Number(price), period_days: Number(days) },
        },
        target.selection,
        Number(days),
        null,
      )
      const rentalsText = target.rows.length === 1 ? 'The rental is' : `${target.rows.length} rentals are`
      return goTo(
        target.backPath,
        `${rentalsText} ${replayed ? 'already ' : ''}extended by ${countText(Number(days), 'day')}: order ${order.details.orderId}.`,
      )
    } catch (error) {
      const bought = `another ${countText(Number(days), 'day')}`
      return refusedPurchase(error, { bought, quotedCents: Number(price) })
    }
  }

  const page = (
    path: ConsolePage['path'],
    name: string,
    summary: string,
    targetOf: (visit: AccountVisit) => Promise<Target>,
  ): ConsolePage =>
    accountPage({
      path,
      name,
      summary,
      show: async (visit) => view(visit, await targetOf(visit)),
      act: { once: 'by key', run: async (visit, typed) => extend(visit, await targetOf(visit), typed) },
    })

  return [
    page(
      '/console/addresses/{id}/extend',
      'extendAddress',
      'Extends a rental at the shown price',
      rentalTarget,
    ),
    page(
      '/console/orders/{id}/extend',
      'extendOrder',
      'Extends all active rentals of an order at the shown price',
      orderTarget,
    ),
  ]
}
