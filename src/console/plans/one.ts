import { maxLabelLength, setLabel } from '../../market/labels/labels.ts'
import type { OwnPlan } from '../../market/plans/own-plan.ts'
import { planStatus } from '../../market/plans/record.ts'
import { type Html, html, nothing } from '../../platform/pages/html.ts'
import { planState } from '../customer/words.ts'
import { fieldOf, type Problems, problemsOf, type Typed, untyped } from '../frame/form.ts'
import { bytesText, countText, idText, timeText } from '../frame/text.ts'
import { type AccountVisit, accountPage, type ConsolePage, goTo, refusedView, show } from '../pages/page.ts'
import type { PlanPagesDeps } from './deps.ts'
import { leftOf } from './left.ts'
import { createPlanFinder, planCall, planPath } from './own.ts'
import { usageOf } from './usage.ts'

const fact = (name: string, value: Html | string): Html => html`<dt>${name}</dt><dd>${value}</dd>\n`

const shownOrders = 3

/** The orders of a plan, newest first: a plan that is topped up for a year has many. */
const ordersOf = (ids: readonly string[]): Html => {
  const links = ids.map((id) => html`<p><a href="/console/orders/${id}">${idText(id)}</a></p>`)
  const earlier = links.slice(shownOrders)
  return html`${links.slice(0, shownOrders)}${earlier.length === 0 ? nothing : html`<details><summary>${earlier.length} earlier</summary>${earlier}</details>`}`
}

/** One plan with its usage, and its label. */
export const onePlanPages = (deps: PlanPagesDeps): readonly ConsolePage[] => {
  const { planOf, productOf, nameOf } = createPlanFinder(deps)

  const actsOf = (plan: OwnPlan): Html => {
    const path = (end: string): string => planPath(plan.plan_id, end)
    const again =
      productOf(plan)?.renewal === 'topup'
        ? html`<a class="button" href="${path('/top-up')}">Top up</a>`
        : html`<a class="button" href="/console/catalogue/${plan.product_id}">Buy another</a>`
    return html`<a class="button first" href="${path('/lines')}">Lines</a> <a class="button" href="${path('/whitelist')}">Whitelist</a> ${again}`
  }

  const view = async (visit: AccountVisit, typed: Typed, problems: Problems) => {
    const plan = await planOf(visit)
    const { nowMs, query } = visit
    const usage = await usageOf(deps.pool, { planId: plan.plan_id, asked: query.get('usage'), nowMs })
    const { host, port } = deps.gateway
    return {
      title: nameOf(plan),
      acts: actsOf(plan),
      body: html`${problemsOf(problems)}<dl class="facts">
${fact('State', planState(planStatus(plan, nowMs), plan.low_since !== null))}
${fact('Plan', idText(plan.plan_id))}
${fact('Product', productOf(plan)?.name ?? plan.product_id)}
${plan.customer_id === null ? nothing : fact('For customer', idText(plan.customer_id))}
${fact('Left', leftOf(plan))}
${fact('Used', bytesText(plan.used_bytes))}
${fact('Began', timeText(plan.started_at))}
${fact('Ends', timeText(plan.expires_at))}
${fact('Gateway', html`<code>${host}:${port}</code>`)}
${fact('Whitelist', html`<a href="${planPath(plan.plan_id, '/whitelist')}">${countText(plan.whitelist_count, 'address', 'addresses')}</a>`)}
${fact('Orders', ordersOf(plan.order_ids))}</dl>
${usage.shown}
<h2>Label</h2>
<form method="post" action="${planPath(plan.plan_id)}" class="stack" novalidate>
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

  const label = async (visit: AccountVisit, typed: Typed) => {
    const plan = await planOf(visit)
    const text = typed.text('label')
    if (text.length > maxLabelLength || /\p{Cc}/u.test(text)) {
      const problems = { label: `A label has at most ${maxLabelLength} characters, on one line.` }
      return refusedView(await view(visit, typed, problems))
    }
    await setLabel(deps.pool, visit.account.accountId, plan.plan_id, text)
    return goTo(planPath(plan.plan_id), text === '' ? 'The label is gone.' : 'The label is set.')
  }

  return [
    accountPage({
      path: '/console/plans/{id}',
      name: 'showPlan',
      summary: 'One plan with its usage',
      show: async (visit) => show(await view(visit, untyped, {})),
      act: { run: label },
    }),
  ]
}
