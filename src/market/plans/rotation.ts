import type { AccountId, PlanId } from '../../kernel/ids.ts'
import type { CommandRunner } from '../../platform/eventstore/commands/command.ts'
import type { Cause } from '../../platform/eventstore/event.ts'
import { planStream } from '../../terms/streams.ts'
import { decideRotation } from './decide.ts'
import { planFold } from './fold.ts'

/** Gives a plan that exists another password: the next generation of its credential, and when that began. */
export const rotatePlanPassword = async (
  runner: CommandRunner,
  planId: PlanId,
  { accountId, ...cause }: Cause & { readonly accountId: AccountId },
): Promise<{
  readonly generation: number
  readonly rotatedAtMs: number
  readonly position: number | null
}> => {
  const stream = planStream(planId)
  const { answer, position } = await runner.run({
    name: 'rotate-plan-password',
    account: accountId,
    ...cause,
    streams: { plan: { stream, fold: planFold } },
    decide: ({ plan }, { nowMs }) => {
      const event = decideRotation(plan)
      if (event?.type !== 'PlanCredentialRotated') throw new Error(`plan ${planId} was never activated`)
      const { generation } = event.data
      return { appends: [{ stream, events: [event] }], answer: { generation, rotatedAtMs: nowMs } }
    },
  })
  return { ...answer, position }
}
