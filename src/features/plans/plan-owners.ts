import type { PlanRow } from '../../../projections/plans.ts'
import type { PlanActivated } from '../../domain/plans/events.ts'
import type { PlanId } from '../../kernel/ids.ts'
import { planStream } from '../../kernel/streams.ts'
import { createGenuineRows, type GenuineRows } from '../../platform/commands/genuine-rows.ts'

type Owned = Pick<PlanRow, 'planId' | 'customerId' | 'productId'>

/** Verifies owner and product of plans in the log, because credentials derive from plan ids, and top-ups are priced. */
export type OwnPlans = GenuineRows<Owned>

export const createOwnPlans = (deps: Parameters<typeof createGenuineRows>[0]): OwnPlans =>
  createGenuineRows<Owned>(deps, {
    keyOf: (row) => `${row.planId} ${row.customerId} ${row.productId}`,
    streamOf: (row) => planStream(row.planId as PlanId),
    // The first event activates the plan and names its owner.
    limitEach: 1,
    isGenuine: (accountId, row, [event]) => {
      if (event?.type !== 'PlanActivated') return false
      const plan = event.data as PlanActivated['data']
      return (
        plan.accountId === accountId && plan.customerId === row.customerId && plan.productId === row.productId
      )
    },
  })
