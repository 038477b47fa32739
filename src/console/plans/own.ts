import type { Product } from '../../market/catalog/product.ts'
import { createOwnPlan, type OwnPlan } from '../../market/plans/own-plan.ts'
import { type Html, html } from '../../platform/pages/html.ts'
import { wholeAccount } from '../../terms/holder.ts'
import type { AccountVisit } from '../pages/page.ts'
import type { PlanPagesDeps } from './deps.ts'

/** The path of a plan's page, or of one below it. */
export const planPath = (planId: string, end = ''): string => `/console/plans/${planId}${end}`

/** The address of an operation on a plan, for the calls that a page shows. */
export const planCall = ({ plan_id }: OwnPlan, end = ''): string => `$API/plans/${plan_id}${end}`

export const backToPlan = ({ plan_id }: OwnPlan): Html =>
  html`<a href="${planPath(plan_id)}">Back to the plan</a>`

/** Finds the plan that a page is about, and what it is called. */
export const createPlanFinder = (deps: PlanPagesDeps) => {
  const ownPlan = createOwnPlan(deps)
  const productOf = ({ product_id }: OwnPlan): Product | undefined =>
    deps.catalog.current().resolve(product_id)
  return {
    /** @throws not_found, for an absent plan and a foreign one alike */
    planOf: ({ account, params }: AccountVisit): Promise<OwnPlan> =>
      ownPlan(wholeAccount(account.accountId), params.id ?? '', null),
    productOf,
    nameOf: (plan: OwnPlan): string => plan.label ?? productOf(plan)?.name ?? plan.product_id,
  }
}

export type PlanFinder = ReturnType<typeof createPlanFinder>
