import type pg from 'pg'
import { type FoundPlan, type PlanStatus, planStatuses, plansAfter } from '../../../projections/plans.ts'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import { numberOf } from '../../domain/catalog/catalog.ts'
import type { Product } from '../../domain/catalog/product.ts'
import type { CustomerId } from '../../kernel/ids.ts'
import { wholeAccount } from '../../kernel/scopes.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import { type FormInput, fieldOf, formOf } from '../../platform/ui/form.ts'
import type { View } from '../../platform/ui/frame.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import { labelled, listPage } from '../../platform/ui/list.ts'
import {
  type AccountVisit,
  accountPage,
  type ConsolePage,
  fieldTextsOf,
  goTo,
  type PageOutcome,
  refused,
} from '../../platform/ui/page.ts'
import { detailsOf, idColumn, nameColumn, stateColumn, timeColumn } from '../../platform/ui/table.ts'
import {
  afterText,
  type BadgeTone,
  buttonLink,
  bytesText,
  countText,
  dollarText,
  idText,
  parseWholeCents,
  stateText,
  timeText,
} from '../../platform/ui/text.ts'
import { maxLabelLength, setLabel } from '../../platform/vault/labels.ts'
import { customerColumn, customerLink, customerRefs, withCustomers } from '../accounts/index.ts'
import { productName, type Quotes } from '../catalog/index.ts'
import {
  chargeOf,
  noQuote,
  orderOfForm,
  type PlaceOrder,
  payerOf,
  payPart,
  productSearch,
  quotedView,
  quoteForm,
  quoteOrProblems,
  refusedPurchase,
} from '../orders/index.ts'
import type { ReadBalance } from '../wallet/index.ts'
import type { VerifyPlans } from './plan-record.ts'
import { createFindPlan, type Gateway, planStatus, type VerifiedPlan } from './plan-record.ts'
import { usageOf } from './plan-usage-pages.ts'

const planBadges: Readonly<Record<PlanStatus, BadgeTone>> = {
  active: 'good',
  depleted: 'bad',
  expired: 'off',
}

const planBadge = (plan: FoundPlan, nowMs: number): readonly [string, BadgeTone] => {
  const status = planStatus(plan, nowMs)
  return status === 'active' && plan.lowSince !== null ? ['low', 'warn'] : [status, planBadges[status]]
}

const leftBytesOf = ({ totalBytes, usedBytes }: FoundPlan): number | null =>
  totalBytes === null ? null : Math.max(0, totalBytes - usedBytes)

/** The remaining bytes of a plan, as a figure and as a bar. */
export const planLeft = ({ totalBytes: total, usedBytes: used, speedUnits: speed }: FoundPlan): Html => {
  if (total === null) return html`${speed ?? 0} units of speed`
  const leftBytes = Math.max(0, total - used)
  return html`${bytesText(leftBytes)} <small>of ${bytesText(total)}</small><br><meter min="0" max="${total}" low="${Math.floor(total / 10)}" value="${leftBytes}" aria-label="left of the plan"></meter>`
}

/** The path of a plan's page, or of a page below it. */
export const planPath = (planId: string, end = ''): string => `/console/plans/${planId}${end}`

/** The URL of an operation on a plan, for the API calls on a page. */
export const planCall = ({ planId }: VerifiedPlan, end = ''): string => `$API/plans/${planId}${end}`

export const backToPlan = ({ planId }: VerifiedPlan): Html =>
  html`<a href="${planPath(planId)}">Back to the plan</a>`

type PlanReads = {
  readonly db: Db
  readonly reads: Pick<Reads, 'settled'>
  readonly catalog: { current(): Pick<Catalog, 'products' | 'resolve'> }
}

/** Finds the plan of a page, and its name. */
export const createPlanFinder = ({
  db,
  reads,
  verifyPlans,
  catalog,
}: PlanReads & { readonly verifyPlans: VerifyPlans }) => {
  const ownPlan = createFindPlan({ db, reads, verifyPlans })
  const productOf = ({ productId }: Pick<VerifiedPlan, 'productId'>): Product | undefined =>
    catalog.current().resolve(productId)
  return {
    /** @throws not_found for an absent plan and for one of another account */
    planOf: ({ account, params }: AccountVisit): Promise<VerifiedPlan> =>
      ownPlan(wholeAccount(account.accountId), params.id ?? '', null),
    productOf,
    nameOf: (plan: Pick<VerifiedPlan, 'productId' | 'label'>): string =>
      plan.label ?? productOf(plan)?.name ?? plan.productId,
  }
}

export type PlanFinder = ReturnType<typeof createPlanFinder>

const shownOrders = 3

/** The orders of a plan, newest first. A plan that is topped up for a year has many. */
const ordersOf = (ids: readonly string[]): Html => {
  const links = ids.map((id) => html`<p>${idText(id, `/console/orders/${id}`)}</p>`)
  const earlierLinks = links.slice(shownOrders)
  return html`${links.slice(0, shownOrders)}${earlierLinks.length === 0 ? nothing : html`<details><summary>${earlierLinks.length} earlier</summary>${earlierLinks}</details>`}`
}

const customerIdOf = ({ customerId }: FoundPlan): string | null => customerId

/** The plans of an account: their usage, labels and top-ups. */
export const planPages = ({
  planFinder: { planOf, productOf, nameOf },
  db,
  reads,
  catalog,
  pool,
  gateway: { host, port, tls },
  quotes,
  placeOrder,
  readBalance,
}: PlanReads & {
  readonly planFinder: PlanFinder
  readonly pool: pg.Pool
  /** The address that clients connect to. */
  readonly gateway: Gateway
  readonly quotes: Pick<Quotes, 'quoteOf'>
  readonly placeOrder: PlaceOrder
  readonly readBalance: ReadBalance
}): readonly ConsolePage[] => {
  /** The product of a plan that the account itself can top up; null for any other plan. */
  const productToTopUp = (plan: VerifiedPlan): Product | null => {
    const product = productOf(plan)
    return product?.renewal === 'topup' && plan.customerId === null ? product : null
  }

  const topUpView = async (visit: AccountVisit): Promise<View | PageOutcome> => {
    const plan = await planOf(visit)
    const product = productToTopUp(plan)
    const view = { title: `Top up ${nameOf(plan)}`, actions: backToPlan(plan) }
    if (product === null)
      return {
        ...view,
        body: html`<div class="empty"><p>${plan.customerId === null ? 'This plan cannot be topped up. Buy another one.' : "This plan belongs to a customer, whose credit pays for it. Top it up by the API with the customer's id."}</p></div>`,
      }
    const quantity = fieldTextsOf(visit)('quantity') || String(product.minQuantity)
    const { figures, problems } = await quoteOrProblems(
      quotes.quoteOf(product, { quantity }, { caller: payerOf(visit), after: null }),
    )
    const wallet = await readBalance(visit.account.accountId)
    const order = figures
      ? { quantity: figures.quantity, expected_amount_cents: chargeOf(figures) }
      : { quantity: product.minQuantity }
    const quantityField = {
      name: 'quantity',
      label: `Add, ${product.unit}`,
      hint: `${product.minQuantity} to ${product.maxQuantity}.`,
      inputmode: 'numeric',
      maxlength: 9,
      value: quantity,
    } as const
    return quotedView(visit, problems, {
      ...view,
      body: html`<p>Left: ${planLeft(plan)}</p>
${quoteForm({
  action: planPath(plan.planId, '/top-up'),
  fields: fieldOf(quantityField, { ...visit.form, problems }),
  quote:
    figures === null
      ? noQuote(problems)
      : html`<p class="figure">${dollarText(chargeOf(figures))}</p>
<p>${figures.quantity} ${product.unit} more</p>
${payPart(visit, { cents: chargeOf(figures), wallet })}`,
})}`,
      islands: ['live-parts'],
      cliEquivalents: [
        `curl ${planCall(plan, '/topup')} -H "X-API-Key: $KEY" -H "Idempotency-Key: $(uuidgen)" --json '${JSON.stringify(order)}'`,
      ],
    })
  }

  const topUp = async (visit: AccountVisit, typed: FormInput) => {
    const plan = await planOf(visit)
    const product = productToTopUp(plan)
    if (product === null) return refused({}, 409)
    const expected = parseWholeCents(typed.text('expected'))
    if (expected === undefined) return refused({})
    const quantity = numberOf(typed.text('quantity')) as number
    const { planId, customerId } = plan
    try {
      const placed = await placeOrder(
        orderOfForm(
          visit,
          typed.key,
          product.id,
          { quantity, expected_amount_cents: expected },
          {
            kind: 'topup',
            plan: { planId, productId: product.id, customerId: customerId as CustomerId | null },
            quantity,
          },
        ),
      )
      return goTo(
        planPath(planId),
        `${placed.replayed ? 'Already topped up' : 'Topped up'}: order ${placed.order.details.orderId}.`,
      )
    } catch (error) {
      return refusedPurchase(error, {
        bought: `${typed.text('quantity')} ${product.unit}`,
        quotedCents: expected,
      })
    }
  }

  return [
    listPage(accountPage, {
      path: '/console/plans',
      name: 'showPlans',
      summary: 'The plans of the account',
      title: 'Plans',
      actions: buttonLink('/console/catalogue', 'Buy proxies', 'first'),
      filters: { status: { label: 'State', choices: labelled(planStatuses, { depleted: 'used up' }) } },
      caption: 'Plans',
      search: 'Product, label or id',
      orderedBy: 'Started',
      file: 'plans',
      load: async ({ account, nowMs }, { search, ...page }) => {
        await reads.settled(account.accountId)
        const plans = await plansAfter(
          db,
          wholeAccount(account.accountId),
          { ...page, search: productSearch(catalog, search) },
          nowMs,
        )
        return withCustomers(pool, account.accountId, plans, customerIdOf)
      },
      keyOf: ({ startedAt, planId }) => afterText(startedAt, planId),
      columns: ({ account, nowMs }) => [
        nameColumn('Plan', ({ planId, productId, label }) => ({
          text: productName(catalog, productId),
          href: planPath(planId),
          note: label,
        })),
        stateColumn('State', (plan) => planBadge(plan, nowMs)),
        { title: 'Left', number: true, place: 'lead', value: leftBytesOf, cell: planLeft },
        {
          title: 'Used',
          number: true,
          value: ({ usedBytes }) => usedBytes,
          cell: ({ usedBytes }) => bytesText(usedBytes),
        },
        ...(account.reseller ? [customerColumn(customerIdOf)] : []),
        timeColumn('Started', ({ startedAt }) => startedAt, { place: 'minor' }),
        timeColumn('Expires', ({ expiresAt }) => expiresAt),
        idColumn('Plan id', ({ planId }) => planId),
      ],
      empty: html`<p>You have no plans yet. Residential, mobile and datacenter traffic comes as a plan.</p><p>${buttonLink('/console/catalogue', 'Buy a plan', 'first')}</p>`,
      cliEquivalents: () => ['curl $API/plans -H "X-API-Key: $KEY"'],
    }),
    accountPage({
      path: '/console/plans/{id}',
      name: 'showPlan',
      crumb: 'Plan',
      summary: 'One plan with its usage',
      show: async (visit) => {
        const plan = await planOf(visit)
        const { nowMs, query, form } = visit
        const { planId } = plan
        const usage = await usageOf(pool, { planId, spanText: query.get('usage'), nowMs })
        const customers = await customerRefs(pool, visit.account.accountId, [plan.customerId])
        const labelField = {
          name: 'label',
          label: 'Label',
          hint: 'Your name for this plan. Empty: none.',
          maxlength: maxLabelLength,
          value: plan.label ?? '',
        }
        return {
          title: nameOf(plan),
          actions: html`${buttonLink(planPath(planId, '/lines'), 'Proxy lines', 'first')}${buttonLink(planPath(planId, '/whitelist'), 'Whitelist')}${buttonLink(planPath(planId, '/traffic'), 'Traffic')}${
            productOf(plan)?.renewal === 'topup'
              ? buttonLink(planPath(planId, '/top-up'), 'Top up')
              : buttonLink(`/console/catalogue/${plan.productId}`, 'Buy another')
          }`,
          body: html`${detailsOf([
            ['State', stateText(...planBadge(plan, nowMs))],
            ['Plan', idText(planId)],
            ['Product', productOf(plan)?.name ?? plan.productId],
            ['Customer', plan.customerId && customerLink(plan.customerId, customers.get(plan.customerId))],
            ['Left', planLeft(plan)],
            [
              'Used',
              html`${bytesText(plan.usedBytes)} <small><a href="${planPath(planId, '/traffic')}">What used it</a></small>`,
            ],
            ['Started', timeText(plan.startedAt)],
            ['Expires', timeText(plan.expiresAt)],
            [
              'Gateway',
              html`<code>${host}:${port}</code>${tls === null ? nothing : html`, with TLS <code>${host}:${tls.port}</code>`}`,
            ],
            [
              'Whitelist',
              html`<a href="${planPath(planId, '/whitelist')}">${countText(plan.whitelistCount, 'address', 'addresses')}</a>`,
            ],
            [
              'Traffic budgets',
              html`<a href="/console/traffic-budgets?plan=${planId}">Limits per day, week or month</a>`,
            ],
            ['Orders', ordersOf(plan.orderIds)],
          ])}
${usage.shown}
<h2>Label</h2>
${formOf(form, { fields: [fieldOf(labelField, form)], submit: 'Set label', plain: true, action: planPath(planId) })}`,
          cliEquivalents: [
            `curl ${planCall(plan)} -H "X-API-Key: $KEY"`,
            usage.call,
            `curl -X PATCH ${planCall(plan)} -H "X-API-Key: $KEY" --json '{"label": "acme"}'`,
          ],
        }
      },
      act: {
        run: async (visit, typed) => {
          const { planId } = await planOf(visit)
          const label = typed.text('label')
          if (label.length > maxLabelLength || /\p{Cc}/u.test(label))
            return refused({ label: `A label has at most ${maxLabelLength} characters, on one line.` })
          await setLabel(pool, visit.account.accountId, planId, label)
          return goTo(planPath(planId), label === '' ? 'The label is removed.' : 'The label is set.')
        },
      },
    }),
    accountPage({
      path: '/console/plans/{id}/top-up',
      name: 'topUpPlan',
      summary: 'Tops up a plan at the shown price',
      show: topUpView,
      act: { once: 'by key', run: topUp },
    }),
  ]
}
