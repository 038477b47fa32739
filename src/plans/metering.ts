import type { CommandRunner } from '../eventstore/commands/command.ts'
import type { Actor } from '../eventstore/event.ts'
import { planStream } from '../eventstore/streams.ts'
import type { PlanId } from '../ids.ts'
import { decideMetering, type MeterAnswer } from './decide.ts'
import { planFold } from './fold.ts'

/** The one port that reports traffic of a plan; a report with a known id is not counted again. */
export const meterPlan = async (
  runner: CommandRunner,
  report: {
    readonly planId: PlanId
    readonly reportId: string
    readonly bytes: number
    readonly actor: Actor
    readonly correlationId: string
  },
): Promise<MeterAnswer> => {
  const { planId, reportId, bytes, actor, correlationId } = report
  const stream = planStream(planId)
  const { answer } = await runner.run({
    name: 'meter-plan',
    streams: { plan: { stream, fold: planFold } },
    decide: ({ plan }) => {
      const { events, answer } = decideMetering(plan, { reportId, bytes })
      return { appends: events.length === 0 ? [] : [{ stream, events }], answer }
    },
    correlationId,
    actor,
  })
  return answer
}
