import type { Reads } from '../../../projections/engine/reads.ts'
import type { PlanId } from '../../kernel/ids.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { Scope } from '../../terms/holder.ts'
import { findPlan, type PlanQueries } from './queries.ts'
import type { FoundPlan } from './record.ts'

export type OwnPlan = FoundPlan & { readonly plan_id: PlanId }

/**
 * Reads a plan within a caller's scope, with everything that the account did up to `after`. Refusal: not_found, for an
 * absent plan and a foreign one alike.
 */
export const createOwnPlan =
  ({ reads, db }: { readonly reads: Pick<Reads, 'settled'>; readonly db: PlanQueries }) =>
  async (scope: Scope, planId: string, after: number | null): Promise<OwnPlan> => {
    await reads.settled(scope.accountId, after ?? 0)
    const plan = await findPlan(db, scope, planId)
    if (!plan) throw refuse('not_found', 'no plan has this id')
    return plan as OwnPlan
  }
