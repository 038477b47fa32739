import type pg from 'pg'
import { type FoundPlan, type PlanStatus, plansAfter } from '../../../projections/plans.ts'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import type { Product } from '../../domain/catalog/product.ts'
import { wholeAccount } from '../../kernel/scopes.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import { emptyFormInput, type FormInput, fieldOf, type Problems, problemsOf } from '../../platform/ui/form.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import {
  type AccountVisit,
  accountPage,
  type ConsolePage,
  goTo,
  refusedView,
  show,
} from '../../platform/ui/page.ts'
import { pagedOf, pageRows, pagerOf, tableOf } from '../../platform/ui/table.ts'
import {
  afterOf,
  afterText,
  type BadgeTone,
  bytesText,
  countText,
  idText,
  stateText,
  timeText,
} from '../../platform/ui/text.ts'
import { maxLabelLength, setLabel } from '../../platform/vault/labels.ts'
import type { VerifyPlans } from './plan-record.ts'
import { createFindPlan, type Gateway, planStatus, type VerifiedPlan } from './plan-record.ts'
import { usageOf } from './plan-usage-pages.ts'

const planBadges: Readonly<Record<PlanStatus, BadgeTone>> = {
  active: 'good',
  depleted: 'bad',
  expired: 'off',
}

export const planState = (status: PlanStatus, isLow: boolean): Html =>
  status === 'active' && isLow ? stateText('low', 'warn') : stateText(status, planBadges[status])

/** The remaining bytes of a plan, as a figure and as a bar. */
export const leftOf = ({ totalBytes: total, usedBytes: used, speedUnits: speed }: FoundPlan): Html => {
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
  readonly verifyPlans: VerifyPlans
  readonly catalog: { current(): Pick<Catalog, 'resolve'> }
}

/** Finds the plan of a page, and its name. */
export const createPlanFinder = ({ db, reads, verifyPlans, catalog }: PlanReads) => {
  const ownPlan = createFindPlan({ db, reads, verifyPlans })
  const productOf = ({ productId }: VerifiedPlan): Product | undefined => catalog.current().resolve(productId)
  return {
    /** @throws not_found for an absent plan and for one of another account */
    planOf: ({ account, params }: AccountVisit): Promise<VerifiedPlan> =>
      ownPlan(wholeAccount(account.accountId), params.id ?? '', null),
    productOf,
    nameOf: (plan: VerifiedPlan): string => plan.label ?? productOf(plan)?.name ?? plan.productId,
  }
}

export type PlanFinder = ReturnType<typeof createPlanFinder>

const list = async (
  { db, reads, catalog }: Omit<PlanReads, 'verifyPlans'>,
  { account, query, nowMs }: AccountVisit,
) => {
  const before = query.get('before')
  const after = afterOf(before)
  await reads.settled(account.accountId)
  const planRows = await plansAfter(db, wholeAccount(account.accountId), { after, limit: pageRows + 1 })
  const { rows, next } = pagedOf(planRows, (plan) => afterText(plan.startedAt, plan.planId))
  return show({
    title: 'Plans',
    body: html`${tableOf({
      caption: 'Plans, newest first',
      rows,
      empty: html`<p>${after === null ? 'There is no plan yet: an order of a gateway product opens one.' : 'Nothing is older.'}</p>`,
      columns: [
        {
          title: 'Plan',
          head: true,
          cell: (plan) =>
            html`<a href="${planPath(plan.planId)}">${catalog.current().resolve(plan.productId)?.name ?? plan.productId}</a>${plan.label ? html` <small>${plan.label}</small>` : null}<br>${idText(plan.planId)}`,
        },
        { title: 'State', cell: (plan) => planState(planStatus(plan, nowMs), plan.lowSince !== null) },
        { title: 'Left', number: true, cell: leftOf },
        { title: 'Used', number: true, cell: ({ usedBytes }) => bytesText(usedBytes) },
        { title: 'Began', cell: ({ startedAt }) => timeText(startedAt) },
        { title: 'Ends', cell: ({ expiresAt }) => timeText(expiresAt) },
      ],
    })}
${pagerOf('/console/plans', {}, { before: after === null ? null : before, next })}`,
    same: ['curl $API/plans -H "X-API-Key: $KEY"'],
  })
}

/** The plans of an account. */
export const planListPages = (services: Omit<PlanReads, 'verifyPlans'>): readonly ConsolePage[] => [
  accountPage({
    path: '/console/plans',
    name: 'showPlans',
    summary: 'The plans of the account',
    nav: { label: 'Plans' },
    show: (visit) => list(services, visit),
  }),
]

const detailRow = (name: string, value: Html | string): Html => html`<dt>${name}</dt><dd>${value}</dd>\n`

const shownOrders = 3

/** The orders of a plan, newest first. A plan that is topped up for a year has many. */
const ordersOf = (ids: readonly string[]): Html => {
  const links = ids.map((id) => html`<p><a href="/console/orders/${id}">${idText(id)}</a></p>`)
  const earlierLinks = links.slice(shownOrders)
  return html`${links.slice(0, shownOrders)}${earlierLinks.length === 0 ? nothing : html`<details><summary>${earlierLinks.length} earlier</summary>${earlierLinks}</details>`}`
}

/** A plan with its usage and its label. */
export const onePlanPages = ({
  planFinder: { planOf, productOf, nameOf },
  pool,
  gateway,
}: {
  readonly planFinder: PlanFinder
  readonly pool: pg.Pool
  /** The address that clients connect to. */
  readonly gateway: Gateway
}): readonly ConsolePage[] => {
  const actsOf = (plan: VerifiedPlan): Html => {
    const path = (end: string): string => planPath(plan.planId, end)
    const topUpLink =
      productOf(plan)?.renewal === 'topup'
        ? html`<a class="button" href="${path('/top-up')}">Top up</a>`
        : html`<a class="button" href="/console/catalogue/${plan.productId}">Buy another</a>`
    return html`<a class="button first" href="${path('/lines')}">Lines</a> <a class="button" href="${path('/whitelist')}">Whitelist</a> ${topUpLink}`
  }

  const view = async (visit: AccountVisit, typed: FormInput, problems: Problems) => {
    const plan = await planOf(visit)
    const { nowMs, query } = visit
    const usage = await usageOf(pool, { planId: plan.planId, asked: query.get('usage'), nowMs })
    const { host, port, tls } = gateway
    return {
      title: nameOf(plan),
      acts: actsOf(plan),
      body: html`${problemsOf(problems)}<dl class="facts">
${detailRow('State', planState(planStatus(plan, nowMs), plan.lowSince !== null))}
${detailRow('Plan', idText(plan.planId))}
${detailRow('Product', productOf(plan)?.name ?? plan.productId)}
${plan.customerId === null ? nothing : detailRow('For customer', idText(plan.customerId))}
${detailRow('Left', leftOf(plan))}
${detailRow('Used', bytesText(plan.usedBytes))}
${detailRow('Began', timeText(plan.startedAt))}
${detailRow('Ends', timeText(plan.expiresAt))}
${detailRow('Gateway', html`<code>${host}:${port}</code>${tls === null ? nothing : html`, with TLS <code>${host}:${tls.port}</code>`}`)}
${detailRow('Whitelist', html`<a href="${planPath(plan.planId, '/whitelist')}">${countText(plan.whitelistCount, 'address', 'addresses')}</a>`)}
${detailRow('Orders', ordersOf(plan.orderIds))}</dl>
${usage.shown}
<h2>Label</h2>
<form method="post" action="${planPath(plan.planId)}" class="stack" novalidate>
${fieldOf({ name: 'label', label: 'What you call it', hint: 'Empty: no label.', maxlength: maxLabelLength, value: plan.label ?? '' }, typed, problems)}
<div class="acts"><button>Set the label</button></div>
</form>`,
      same: [
        `curl ${planCall(plan)} -H "X-API-Key: $KEY"`,
        usage.call,
        `curl -X PATCH ${planCall(plan)} -H "X-API-Key: $KEY" --json '{"label": "acme"}'`,
      ],
    }
  }

  const label = async (visit: AccountVisit, typed: FormInput) => {
    const plan = await planOf(visit)
    const text = typed.text('label')
    if (text.length > maxLabelLength || /\p{Cc}/u.test(text)) {
      const problems = { label: `A label has at most ${maxLabelLength} characters, on one line.` }
      return refusedView(await view(visit, typed, problems))
    }
    await setLabel(pool, visit.account.accountId, plan.planId, text)
    return goTo(planPath(plan.planId), text === '' ? 'The label is gone.' : 'The label is set.')
  }

  return [
    accountPage({
      path: '/console/plans/{id}',
      name: 'showPlan',
      summary: 'One plan with its usage',
      show: async (visit) => show(await view(visit, emptyFormInput, {})),
      act: { run: label },
    }),
  ]
}
