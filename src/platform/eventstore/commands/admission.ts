import type { MonotonicClock } from '../../../kernel/clock.ts'
import type { Answers } from './answers.ts'
import { overloadOf } from './answers.ts'
import type { CommandOutcome } from './command.ts'
import type { RunnerLimits } from './limits.ts'
import type { AnyCommand, Use } from './pending.ts'
import type { RunnerMetrics } from './ports.ts'
import type { Queue } from './queue.ts'
import type { Slot, Slots } from './slots.ts'

type AdmissionDeps = {
  readonly limits: RunnerLimits
  readonly metrics: RunnerMetrics | undefined
  readonly slots: Slots
  readonly answers: Answers
  readonly queue: Queue
  readonly nextTick: () => number
  readonly monotonicMs: MonotonicClock
  readonly isClosed: () => boolean
  readonly onAdmitted: () => void
}

const holdAll = (slots: Slots, command: AnyCommand): readonly Use[] => {
  const uses: Use[] = []
  const seen = new Set<Slot>()
  try {
    for (const [key, ref] of Object.entries(command.streams)) {
      const slot = slots.hold(ref)
      uses.push({ key, slot, assumeAbsent: ref.assume === 'absent' })
      if (seen.has(slot)) throw new Error(`command ${command.name} names stream ${slot.stream} twice`)
      seen.add(slot)
    }
    return uses
  } catch (error) {
    for (const { slot } of uses) slots.drop(slot)
    throw error
  }
}

/** Lets commands into the queue, or refuses them: a full queue and a closed runner give CommandOverload at once. */
export const createAdmission =
  (deps: AdmissionDeps) =>
  (command: AnyCommand): Promise<CommandOutcome<unknown>> =>
    new Promise((resolve, reject) => {
      const { limits, metrics, queue } = deps
      if (deps.isClosed()) throw overloadOf(metrics, 'closed', 'the service is stopping')
      if (queue.length() >= limits.queueLength)
        throw overloadOf(metrics, 'queue-full', 'too many commands wait')
      const uses = holdAll(deps.slots, command)
      deps.answers.opened()
      queue.push({
        command,
        uses,
        arrival: deps.nextTick(),
        arrivedMs: deps.monotonicMs(),
        attempts: 0,
        verify: false,
        solo: false,
        answered: false,
        resolve,
        reject,
      })
      deps.onAdmitted()
    })
