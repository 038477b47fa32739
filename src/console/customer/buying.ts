import type { Quote } from '../../market/catalog/pricing.ts'
import type { Buy } from '../../market/orders/buying.ts'
import type { ApiError } from '../../platform/http/errors.ts'
import { type Html, html } from '../../platform/pages/html.ts'
import { wholeAccount } from '../../terms/holder.ts'
import { hiddenOf, keyField, type Problems } from '../frame/form.ts'
import { dollarText } from '../frame/text.ts'
import type { AccountVisit } from '../pages/page.ts'
import { payerOf } from '../pages/payer.ts'
import { refusalOf } from '../pages/refusal.ts'

/** A purchase for the account itself; `path` is the page that it comes from, so that no call of the API is the same. */
export const purchaseOf = (
  visit: AccountVisit,
  key: string,
  productId: string,
  body: Parameters<Buy>[0]['body'],
): Parameters<Buy>[0] => ({
  caller: payerOf(visit),
  scope: wholeAccount(visit.account.accountId),
  requestId: visit.requestId,
  idempotencyKey: key,
  customerRef: null,
  path: visit.path,
  productId,
  body,
})

/** What the account itself pays: a reseller its cost, anybody else the price. */
export const chargeOf = ({ amountCents, reseller }: Quote): number => reseller?.yourCostCents ?? amountCents

/** The form that buys at the price that was shown; what is bought stands in its hidden fields. */
export const payForm = (
  visit: AccountVisit,
  {
    cents,
    balanceCents,
    action,
    hidden,
  }: {
    readonly cents: number
    /** What the wallet has for it. */
    readonly balanceCents: number
    readonly action: string
    readonly hidden: Readonly<Record<string, string | number>>
  },
): Html => html`<p>Your wallet has ${dollarText(balanceCents)}.${balanceCents < cents ? html` ${topUpLink(cents - balanceCents)}` : null}</p>
<form method="post" action="${action}">
${keyField(visit.formKey)}${hiddenOf('expected', cents)}
${Object.entries(hidden).map(([name, value]) => hiddenOf(name, value))}
<div class="acts"><button class="first">Buy for ${dollarText(cents)}</button></div>
</form>`

/** Whole cents as a hidden field has them; undefined for anything else. */
export const wholeCentsOf = (text: string): number | undefined =>
  /^\d{1,12}$/.test(text) ? Number(text) : undefined

/** Where money is added, with the amount that is missing. */
export const topUpLink = (missingCents: number): Html =>
  html`<a href="/console/top-up?cents=${missingCents}">Add ${dollarText(missingCents)} to the wallet</a>`

const fieldOfCode: Readonly<Record<string, string>> = {
  invalid_quantity: 'quantity',
  invalid_country: 'country',
  invalid_period: 'period_days',
}

/** A refusal beside the field that it is about. @throws the error when it is none */
export const problemOfRefusal = (error: unknown): Problems => {
  const { text } = refusalOf(error)
  return { [fieldOfCode[(error as ApiError).code] ?? 'form']: text }
}

/** Why a purchase was refused, with what to do about it. @throws the error when it is no refusal */
export const refusedPurchase = (
  error: unknown,
  quotedCents: number,
): { readonly said: Html; readonly status: 400 | 409 | 429 } => {
  const { text: problem, status } = refusalOf(error)
  const { code, extra = {} } = error as ApiError
  const figure = (name: string): number => Number(extra[name])
  const text =
    code === 'insufficient_balance'
      ? html`The wallet has ${dollarText(figure('balanceCents'))}: ${dollarText(figure('shortfallCents'))} are missing of ${dollarText(figure('amountCents'))}. ${topUpLink(figure('shortfallCents'))}`
      : code === 'price_changed'
        ? html`The price is ${dollarText(figure('amountCents'))} now, not ${dollarText(quotedCents)}. Below is the new quote.`
        : html`${problem}`
  const said = html`<div class="said bad" role="alert"><p>Nothing was ordered. ${text}</p></div>`
  return { said, status: code === 'insufficient_balance' ? 409 : status }
}
