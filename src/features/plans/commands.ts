import { planStatuses } from '../../../projections/plans.ts'
import type { PlanId } from '../../kernel/ids.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import { command } from '../../platform/cli/command.ts'
import { argument, defaulted, id, oneOf, option, required, wholeNumber } from '../../platform/cli/input.ts'
import { resourceCommands } from '../accounts/for-commands.ts'
import type { Meter } from './meter-traffic.ts'
import { trafficGroups } from './traffic-groups.ts'

const runs = () => import('./run-commands.ts')

export const meterInput = {
  plan: required('<id>', 'the plan', id<PlanId>),
  bytes: required('<n>', 'used bytes; 1 GB is 1,000,000,000', wholeNumber(1, 1e15)),
  report: option('<id>', 'names the report; the same name is counted once'),
}

const planArgument = argument('<plan>', 'the plan, pln_…', id<PlanId>)

export const requestsInput = {
  plan: planArgument,
  host: option('<host>', 'only requests to this recorded host'),
  country: option('<code>', 'only requests through an exit in this country, such as us'),
  reason: option('<reason>', 'only requests that ended with this reason; none: without an error'),
  request: option('<id>', 'only the request with this id'),
  limit: defaulted('<n>', 'how many, the newest first', 20, wholeNumber(1, 1_000)),
}

export const trafficInput = {
  plan: planArgument,
  by: defaulted('<what>', 'what the traffic is grouped by', 'host' as const, oneOf(trafficGroups)),
  hours: defaulted('<n>', 'how many hours, the current one included', 24, wholeNumber(1, 2_208)),
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
      'bin/farebox plans meter --plan pln_7d0f8f2e2f0b5a7c9a3c1f8d2b6e4a10 --bytes 500000000',
      'bin/farebox plans meter --plan pln_7d0f8f2e2f0b5a7c9a3c1f8d2b6e4a10 --bytes 500000000 --report gw1-1042 --json',
    ],
    run: async () => (await runs()).meter,
  }),
  command({
    name: 'plans requests',
    about: 'list the recorded requests of a plan, newest first',
    input: requestsInput,
    examples: [
      'bin/farebox plans requests pln_7d0f8f2e2f0b5a7c9a3c1f8d2b6e4a10 --limit 100',
      'bin/farebox plans requests pln_7d0f8f2e2f0b5a7c9a3c1f8d2b6e4a10 --reason target_timeout --json',
    ],
    run: async () => (await runs()).requests,
  }),
  command({
    name: 'plans traffic',
    about: 'show what used the traffic of a plan',
    input: trafficInput,
    examples: [
      'bin/farebox plans traffic pln_7d0f8f2e2f0b5a7c9a3c1f8d2b6e4a10',
      'bin/farebox plans traffic pln_7d0f8f2e2f0b5a7c9a3c1f8d2b6e4a10 --by hour --hours 48 --json',
    ],
    run: async () => (await runs()).traffic,
  }),
]

/** Writes a plan's used traffic to the log, for the command that refunds its order. */
export const settleTraffic =
  (context: CliContext): Meter['settle'] =>
  async (planId) =>
    (await import('./meter-traffic.ts')).createMeter(context).settle(planId)
