import { planStatuses } from '../../../projections/plans.ts'
import type { PlanId } from '../../kernel/ids.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import { command } from '../../platform/cli/command.ts'
import { id, option, required, wholeNumber } from '../../platform/cli/input.ts'
import { resourceCommands } from '../accounts/for-commands.ts'
import type { Meter } from './meter-traffic.ts'

const runs = () => import('./run-commands.ts')

export const meterInput = {
  plan: required('<id>', 'the plan', id<PlanId>),
  bytes: required('<n>', 'used bytes; 1 GB is 1,000,000,000', wholeNumber(1, 1e15)),
  report: option('<id>', 'names the report; the same name is counted once'),
}

export const commands = [
  ...resourceCommands(
    { name: 'plans', one: 'plan', exampleId: 'pln_…', statuses: planStatuses },
    async () => (await runs()).plans,
  ),
  command({
    name: 'plans meter',
    about: 'report traffic of a plan, the sum of both directions',
    input: meterInput,
    examples: [
      'npx farebox plans meter --plan pln_7d0f8f2e2f0b5a7c9a3c1f8d2b6e4a10 --bytes 500000000',
      'npx farebox plans meter --plan pln_7d0f8f2e2f0b5a7c9a3c1f8d2b6e4a10 --bytes 500000000 --report gw1-1042 --json',
    ],
    run: async () => (await runs()).meter,
  }),
]

/** Writes a plan's used traffic to the log, for the command that refunds its order. */
export const settleTraffic =
  (context: CliContext): Meter['settle'] =>
  async (planId) =>
    (await import('./meter-traffic.ts')).createMeter(context).settle(planId)
