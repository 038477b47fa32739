import { decidePlanOrder } from '../../../src/domain/plans/decide.ts'
import { planFold } from '../../../src/domain/plans/fold.ts'
import type { AccountId, PlanId } from '../../../src/kernel/ids.ts'
import { planStream } from '../../../src/kernel/streams.ts'
import type { CommandRunner } from '../../../src/platform/commands/command.ts'
import { planOrder } from '../../support/world.ts'

const cause = { actor: { kind: 'system', name: 'test' }, correlationId: 'test' } as const

/** Opens a plan by an order, alone in its stream: nothing was ordered or paid. */
export const openPlanOf = async (
  runner: CommandRunner,
  orderId: string,
  of: { readonly planId: PlanId; readonly bytes: number; readonly accountId?: AccountId },
): Promise<void> => {
  const order = planOrder(orderId, of)
  const stream = planStream(of.planId)
  await runner.run({
    name: 'open-plan',
    streams: { plan: { stream, fold: planFold } },
    decide: ({ plan }, { nowMs }) => ({
      appends: [{ stream, events: decidePlanOrder(plan, order, nowMs).events }],
      answer: null,
    }),
    ...cause,
  })
}

/** A plan that holds so much traffic, alone in its stream. */
export const openPlan = async (runner: CommandRunner, name: string, bytes: number): Promise<PlanId> => {
  const planId = `pln_${name}` as PlanId
  await openPlanOf(runner, `ord_${name}`, { planId, bytes, accountId: 'acc_buyer' as AccountId })
  return planId
}
