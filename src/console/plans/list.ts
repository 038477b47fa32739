import { plansAfter } from '../../market/plans/queries.ts'
import { planStatus } from '../../market/plans/record.ts'
import { html } from '../../platform/pages/html.ts'
import { wholeAccount } from '../../terms/holder.ts'
import { afterOf, afterText, planState } from '../customer/words.ts'
import { pagedOf, pageRows, pagerOf, tableOf } from '../frame/table.ts'
import { bytesText, idText, timeText } from '../frame/text.ts'
import { type AccountVisit, accountPage, type ConsolePage, show } from '../pages/page.ts'
import type { PlanPagesDeps } from './deps.ts'
import { leftOf } from './left.ts'
import { planPath } from './own.ts'

const list = async (deps: PlanPagesDeps, { account, query, nowMs }: AccountVisit) => {
  const before = query.get('before')
  const after = afterOf(before)
  await deps.reads.settled(account.accountId)
  const found = await plansAfter(deps.db, wholeAccount(account.accountId), { after, limit: pageRows + 1 })
  const { rows, next } = pagedOf(found, (plan) => afterText(plan.started_at, plan.plan_id))
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
            html`<a href="${planPath(plan.plan_id)}">${deps.catalog.current().resolve(plan.product_id)?.name ?? plan.product_id}</a>${plan.label ? html` <small>${plan.label}</small>` : null}<br>${idText(plan.plan_id)}`,
        },
        { title: 'State', cell: (plan) => planState(planStatus(plan, nowMs), plan.low_since !== null) },
        { title: 'Left', number: true, cell: leftOf },
        { title: 'Used', number: true, cell: ({ used_bytes }) => bytesText(used_bytes) },
        { title: 'Began', cell: ({ started_at }) => timeText(started_at) },
        { title: 'Ends', cell: ({ expires_at }) => timeText(expires_at) },
      ],
    })}
${pagerOf('/console/plans', {}, { before: after === null ? null : before, next })}`,
    same: ['curl $API/plans -H "X-API-Key: $KEY"'],
  })
}

/** The plans of an account. */
export const planListPages = (deps: PlanPagesDeps): readonly ConsolePage[] => [
  accountPage({
    path: '/console/plans',
    name: 'showPlans',
    summary: 'The plans of the account',
    nav: { label: 'Plans' },
    show: (visit) => list(deps, visit),
  }),
]
