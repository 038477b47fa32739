import type { Quote } from '../../domain/catalog/pricing.ts'
import { wholeAccount } from '../../kernel/scopes.ts'
import type { ApiError } from '../../platform/http/errors.ts'
import { refusalOf } from '../../platform/ui/answer-page.ts'
import { hiddenOf, keyField } from '../../platform/ui/form.ts'
import { type Html, html } from '../../platform/ui/html.ts'
import type { AccountVisit } from '../../platform/ui/page.ts'
import { dollarText } from '../../platform/ui/text.ts'
import { payerOf } from './payer.ts'
import type { PlaceOrder } from './place-order.ts'

/** A purchase for the account itself; `path` is the page that it comes from, so that no call of the API is the same. */
export const purchaseOf = (
  visit: AccountVisit,
  key: string,
  productId: string,
  body: Parameters<PlaceOrder>[0]['body'],
): Parameters<PlaceOrder>[0] => ({
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

/** Where money is added, with the amount that is missing. */
export const topUpLink = (missingCents: number): Html =>
  html`<a href="/console/top-up?cents=${missingCents}">Add ${dollarText(missingCents)} to the wallet</a>`

/** Why a purchase was refused, with what to do about it. @throws the error when it is no refusal */
export const refusedPurchase = (
  error: unknown,
  quotedCents: number,
): { readonly message: Html; readonly status: 400 | 409 | 429 } => {
  const { text: problem, status } = refusalOf(error)
  const { code, extra = {} } = error as ApiError
  const figure = (name: string): number => Number(extra[name])
  const text =
    code === 'insufficient_balance'
      ? html`The wallet has ${dollarText(figure('balanceCents'))}: ${dollarText(figure('shortfallCents'))} are missing of ${dollarText(figure('amountCents'))}. ${topUpLink(figure('shortfallCents'))}`
      : code === 'price_changed'
        ? html`The price is ${dollarText(figure('amountCents'))} now, not ${dollarText(quotedCents)}. Below is the new quote.`
        : html`${problem}`
  const message = html`<div class="said bad" role="alert"><p>Nothing was ordered. ${text}</p></div>`
  return { message, status: code === 'insufficient_balance' ? 409 : status }
}
