import { numberOf } from '../../domain/catalog/catalog.ts'
import type { Product } from '../../domain/catalog/product.ts'
import type { CustomerId } from '../../kernel/ids.ts'
import type { Assets } from '../../platform/ui/assets.ts'
import {
  emptyFormInput,
  type FormInput,
  fieldOf,
  type Problems,
  parseWholeCents,
  problemOfRefusal,
} from '../../platform/ui/form.ts'
import type { View } from '../../platform/ui/frame.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import {
  type AccountVisit,
  accountPage,
  type ConsolePage,
  goTo,
  refusedView,
  show,
} from '../../platform/ui/page.ts'
import { dollarText } from '../../platform/ui/text.ts'
import type { Quotes } from '../catalog/index.ts'
import {
  chargeOf,
  noQuote,
  orderOfForm,
  type PlaceOrder,
  payerOf,
  payPart,
  quoteForm,
  refusedPurchase,
} from '../orders/index.ts'
import type { ReadBalance } from '../wallet/index.ts'
import { backToPlan, leftOf, type PlanFinder, planCall, planPath } from './plan-pages.ts'
import type { VerifiedPlan } from './plan-record.ts'

/** Tops up a plan at the shown price. A different price is refused. */
export const planTopUpPages = ({
  planFinder: { planOf, productOf, nameOf },
  quotes,
  placeOrder,
  readBalance,
  island,
}: {
  readonly planFinder: PlanFinder
  readonly quotes: Pick<Quotes, 'quoteOf'>
  readonly placeOrder: PlaceOrder
  readonly readBalance: ReadBalance
  readonly island: Assets['island']
}): readonly ConsolePage[] => {
  /** The product of a plan that the account itself can top up; null for any other plan. */
  const productToTopUp = (plan: VerifiedPlan): Product | null => {
    const product = productOf(plan)
    return product?.renewal === 'topup' && plan.customerId === null ? product : null
  }

  const unavailableView = (plan: VerifiedPlan): View => ({
    title: `Top up ${nameOf(plan)}`,
    acts: backToPlan(plan),
    body: html`<div class="empty"><p>${plan.customerId === null ? 'This plan is not topped up: buy another one.' : 'It is held for a customer, whose credit pays: top it up by the API, and name the customer.'}</p></div>`,
  })

  const view = async (
    visit: AccountVisit,
    plan: VerifiedPlan,
    product: Product,
    { text, refused = nothing }: { readonly text: (name: string) => string; readonly refused?: Html },
  ): Promise<{ readonly problems: Problems; readonly view: View }> => {
    const { accountId } = visit.account
    const quantity = text('quantity') === '' ? String(product.minQuantity) : text('quantity')
    const quoted = await quotes.quoteOf(product, { quantity }, { caller: payerOf(visit), after: null }).then(
      ({ figures }) => ({ figures, problems: {} as Problems }),
      (error: unknown) => ({ figures: null, problems: problemOfRefusal(error) }),
    )
    const { figures, problems } = quoted
    const balanceCents = await readBalance(accountId)
    const body = figures && { quantity: figures.quantity, expected_amount_cents: chargeOf(figures) }
    return {
      problems,
      view: {
        title: `Top up ${nameOf(plan)}`,
        acts: backToPlan(plan),
        body: html`${refused}<p>Left: ${leftOf(plan)}</p>
${quoteForm({
  action: planPath(plan.planId, '/top-up'),
  fields: fieldOf(
    {
      name: 'quantity',
      label: `Add, ${product.unit}`,
      hint: `${product.minQuantity} to ${product.maxQuantity}.`,
      inputmode: 'numeric',
      maxlength: 9,
      value: quantity,
    },
    emptyFormInput,
    problems,
  ),
  quote:
    figures === null
      ? noQuote(problems)
      : html`<p class="figure">${dollarText(chargeOf(figures))}</p>
<p>${figures.quantity} ${product.unit} more</p>
${payPart(visit, { cents: chargeOf(figures), balanceCents })}`,
})}`,
        scripts: [island('live-parts')],
        same: [
          `curl ${planCall(plan, '/topup')} -H "X-API-Key: $KEY" -H "Idempotency-Key: $(uuidgen)" --json '${JSON.stringify(body ?? { quantity: product.minQuantity })}'`,
        ],
      },
    }
  }

  const topUp = async (visit: AccountVisit, typed: FormInput) => {
    const plan = await planOf(visit)
    const product = productToTopUp(plan)
    if (product === null) return refusedView(unavailableView(plan), 409)
    const { text } = typed
    const expected = parseWholeCents(text('expected'))
    if (expected === undefined) return refusedView((await view(visit, plan, product, { text })).view)
    const quantity = numberOf(text('quantity')) as number
    const body = { quantity, expected_amount_cents: expected }
    try {
      const placed = await placeOrder(
        orderOfForm(visit, typed.key, product.id, body, {
          kind: 'topup',
          plan: {
            planId: plan.planId,
            productId: product.id,
            customerId: plan.customerId as CustomerId | null,
          },
          quantity,
        }),
      )
      return goTo(
        planPath(plan.planId),
        `${placed.replayed ? 'It was topped up before' : 'Topped up'}: order ${placed.order.details.orderId}.`,
      )
    } catch (error) {
      const bought = `${text('quantity')} ${product.unit}`
      const { message, status } = refusedPurchase(error, { bought, quotedCents: expected })
      return refusedView((await view(visit, plan, product, { text, refused: message })).view, status)
    }
  }

  return [
    accountPage({
      path: '/console/plans/{id}/top-up',
      name: 'topUpPlan',
      summary: 'Adds units to a plan, with the price before',
      show: async (visit) => {
        const plan = await planOf(visit)
        const product = productToTopUp(plan)
        if (product === null) return show(unavailableView(plan))
        const text = (name: string): string => visit.query.get(name)?.trim() ?? ''
        const topUpView = await view(visit, plan, product, { text })
        return Object.keys(topUpView.problems).length === 0
          ? show(topUpView.view)
          : refusedView(topUpView.view)
      },
      act: { once: 'by key', run: topUp },
    }),
  ]
}
