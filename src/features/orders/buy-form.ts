import type { Quote } from '../../domain/catalog/pricing.ts'
import { wholeAccount } from '../../kernel/scopes.ts'
import type { ApiError } from '../../platform/http/errors.ts'
import { refusalOf } from '../../platform/ui/answer-page.ts'
import { emptyFormInput, hiddenOf, keyField, type Problems } from '../../platform/ui/form.ts'
import type { View } from '../../platform/ui/frame.ts'
import { type Html, html } from '../../platform/ui/html.ts'
import {
  type AccountVisit,
  type FormRefusal,
  type PageOutcome,
  refused,
  refusedBy,
  viewWithStatus,
} from '../../platform/ui/page.ts'
import { dollarText } from '../../platform/ui/text.ts'
import type { WalletFigures } from '../wallet/index.ts'
import type { OrderRequest } from './place-order.ts'
import { orderOf, type Purchase } from './place-order.ts'
import type { OrderItem } from './prepare-order.ts'
import { payerOf } from './prepare-order.ts'

/**
 * The order of a form, for the account itself. Its path is that of the page, so it never equals that of an API call.
 */
export const orderOfForm = (
  visit: AccountVisit,
  key: string,
  productId: string,
  body: Purchase['body'],
  item: OrderItem,
): OrderRequest =>
  orderOf(
    {
      caller: payerOf(visit),
      scope: wholeAccount(visit.account.accountId),
      requestId: visit.requestId,
      idempotencyKey: key,
      customerRef: null,
      path: visit.path,
      body,
    },
    productId,
    item,
  )

/** The charge for the account itself: the cost for a reseller, else the price. */
export const chargeOf = ({ amountCents, reseller }: Quote): number => reseller?.yourCostCents ?? amountCents

/** A quote and its fields in one form, so that the order has the fields at the time of its submission. */
export const quoteForm = ({
  action,
  fields,
  quote,
}: {
  readonly action: string
  readonly fields: Html
  readonly quote: Html
}): Html => html`<live-parts><form method="post" action="${action}" class="cards" data-quotes autocomplete="off" novalidate>
<div class="card stack">
${fields}
<div class="actions"><button formmethod="get">Quote</button></div>
</div>
<section class="card" id="live-quote" data-live aria-live="polite" aria-label="Quote"><h2>Quote</h2>
${quote}
</section></form></live-parts>`

/** Replaces a quote: the reasons why there is none. */
export const noQuote = (problems: Problems): Html =>
  html`<p>No price.</p>${Object.values(problems).map((problem) => html`<p class="problem">${problem}</p>`)}`

/** The end of a quote: the buy button. The shown price is sent with it, and a different price is refused. */
export const payPart = (
  visit: AccountVisit,
  {
    cents,
    wallet: { balanceCents, owedCents },
  }: {
    readonly cents: number
    readonly wallet: WalletFigures
  },
): Html => html`<p>Your wallet has ${dollarText(balanceCents)}.${balanceCents < cents ? html`${debtText(owedCents)} ${topUpLink(cents + owedCents - balanceCents)}` : null}</p>
${keyField(visit.form.key)}${hiddenOf('expected', cents)}
<div class="actions"><button class="first" id="buy">Buy for ${dollarText(cents)}</button></div>`

/** The debt in a missing amount, as a sentence. */
const debtText = (owedCents: number): Html | null =>
  owedCents === 0
    ? null
    : html` You owe ${dollarText(owedCents)} after a refund or a dispute, and a payment pays it first.`

/** A link to the top-up page, with the missing amount. */
export const topUpLink = (missingCents: number): Html =>
  html`<a href="/console/top-up?cents=${missingCents}">Add ${dollarText(missingCents)} to the wallet</a>`

const quoteFields = {
  invalid_quantity: 'quantity',
  invalid_country: 'country',
  invalid_period: 'period_days',
}

/** A quote, or the problems of the fields that have no price. */
export const quoteOrProblems = (
  quoted: Promise<{ readonly figures: Quote }>,
): Promise<{ readonly figures: Quote | null; readonly problems: Problems }> =>
  quoted.then(
    ({ figures }) => ({ figures, problems: {} }),
    (error) => ({ figures: null, problems: refusedBy(error, quoteFields).problems }),
  )

/** The view of a quote. Its status is 400 if the fields of the query have no price. */
export const quotedView = ({ form }: AccountVisit, problems: Problems, view: View): View | PageOutcome =>
  form.typed === emptyFormInput && Object.keys(problems).length > 0 ? viewWithStatus(view, 400) : view

/**
 * A refused purchase, with the next step.
 * @param bought the requested item in words: `8 GB`
 * @throws the error if it is not a refusal
 */
export const refusedPurchase = (
  error: unknown,
  { bought, quotedCents }: { readonly bought: string; readonly quotedCents: number },
): FormRefusal => {
  const { text: problem, status, code } = refusalOf(error)
  const { extra = {} } = error as ApiError
  const figure = (name: string): number => Number(extra[name])
  const text =
    code === 'insufficient_balance'
      ? html`The wallet has ${dollarText(figure('balanceCents'))}: ${dollarText(figure('shortfallCents'))} are missing for ${dollarText(figure('amountCents'))}.${debtText(Number(extra.owedCents ?? 0))} ${topUpLink(figure('shortfallCents'))}`
      : code === 'price_changed'
        ? html`The price of ${bought} is ${dollarText(figure('amountCents'))}, not ${dollarText(quotedCents)} as quoted. The new quote is below: buy again to accept it.`
        : html`${problem}`
  const message = html`<div class="message bad" role="alert"><p>Nothing was ordered. ${text}</p></div>`
  return { ...refused({}, code === 'insufficient_balance' ? 409 : status), message }
}
