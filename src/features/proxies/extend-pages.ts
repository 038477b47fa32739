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
  emptyFormInput,
  type FormInput,
  hiddenOf,
  keyField,
  type Problems,
  problemsOf,
} from '../../platform/ui/form.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import {
  type AccountVisit,
  accountPage,
  type ConsolePage,
  goTo,
  refusedView,
  show,
} from '../../platform/ui/page.ts'
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
      description: html`<p>The rental ends ${timeText(row.expiresAt)}, and goes on from there. The wallet pays.</p>`,
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
      description: html`<p>All rentals of the order that still run, together: each goes on from its own end, and one order pays for all of them or none is kept. The wallet pays.</p>
${tableOf({
  caption: 'Rentals that are kept',
  rows,
  empty: nothing,
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

  const view = async (
    visit: AccountVisit,
    target: Target,
    {
      typed = emptyFormInput,
      problems = {},
      refused = nothing,
    }: { readonly typed?: FormInput; readonly problems?: Problems; readonly refused?: Html } = {},
  ) => {
    const { title, description, selectionJson, path, backPath } = target
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
      body: html`${refused}${problemsOf({ ...priceProblems, ...problems })}
${description}
${
  usual === undefined
    ? html`<p class="empty">It cannot be extended now. <a href="${backPath}">Back</a></p>`
    : html`<form method="post" action="${path}" class="stack" novalidate>
${keyField(visit.formKey)}
${offers.map(({ days, amountCents }) => hiddenOf(`price-${days}`, amountCents))}
${choicesOf(
  {
    name: 'days',
    legend: 'For another',
    one: true,
    chosen: [String(usual.days)],
    choices: offers.map(({ days, amountCents }) => ({
      value: String(days),
      label: countText(days, 'day'),
      hint: dollarText(amountCents),
    })),
  },
  typed,
  problems,
)}
<div class="acts"><button class="first">Pay and extend</button> <a href="${backPath}">Back</a></div>
</form>`
}`,
      same: [
        `curl -X POST $API/proxies/extend -H "X-API-Key: $KEY" -H 'Content-Type: application/json' -d '{${selectionJson},"period_days":${usual?.days ?? usualDays}${usual === undefined ? '' : `,"expected_amount_cents":${usual.amountCents}`}}'`,
      ],
    }
  }

  const extend = async (visit: AccountVisit, target: Target, typed: FormInput) => {
    const days = typed.text('days')
    const price = typed.text(`price-${days}`)
    if (!/^\d{1,4}$/.test(days) || !/^\d{1,12}$/.test(price))
      return refusedView(await view(visit, target, { typed, problems: { days: 'Choose for how long.' } }))
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
      const rentalsText =
        target.rows.length === 1 ? 'The rental goes on' : `${target.rows.length} rentals go on`
      return goTo(
        target.backPath,
        `${rentalsText} for another ${countText(Number(days), 'day')}${replayed ? ', as was ordered before' : ''}: order ${order.details.orderId}.`,
      )
    } catch (error) {
      const bought = `another ${countText(Number(days), 'day')}`
      const { message, status } = refusedPurchase(error, { bought, quotedCents: Number(price) })
      return refusedView(await view(visit, target, { typed, refused: message }), status)
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
      show: async (visit) => show(await view(visit, await targetOf(visit))),
      act: { once: 'by key', run: async (visit, typed) => extend(visit, await targetOf(visit), typed) },
    })

  return [
    page(
      '/console/addresses/{id}/extend',
      'extendAddress',
      'Keeps a rental for another period, with the price before',
      rentalTarget,
    ),
    page(
      '/console/orders/{id}/extend',
      'extendOrder',
      'Keeps all rentals of an order that still run for another period, with the price before',
      orderTarget,
    ),
  ]
}
