import type { Command } from 'commander'
import { planStatuses } from '../../../projections/plans.ts'
import { type Cli, type CliContext, wholeNumber } from '../../platform/cli/cli-context.ts'
import { registerListCommands } from '../accounts/for-commands.ts'
import type { Meter } from './meter-traffic.ts'

/** Imported lazily, when a command runs. */
const runs = () => import('./run-commands.ts')

/** `plans list|show`, `plans meter --plan ID --bytes N [--report ID]`. */
export const registerPlans = (program: Command, cli: Cli): void => {
  const plans = program.command('plans')
  registerListCommands(
    plans,
    cli,
    { name: 'plans', one: 'plan', exampleId: 'pln_…', statuses: planStatuses },
    async () => (await runs()).plans,
  )

  plans
    .command('meter')
    .description('report traffic of a plan, both directions added')
    .requiredOption('--plan <id>', 'the plan')
    .requiredOption('--bytes <n>', 'bytes that were used; 1 GB is 1,000,000,000', wholeNumber(1, 1e15))
    .option('--report <id>', 'names the report; the same name is counted once')
    .addHelpText(
      'after',
      `
Examples:
  npx farebox plans meter --plan pln_7d0f8f2e2f0b5a7c9a3c1f8d2b6e4a10 --bytes 500000000
  npx farebox plans meter --plan pln_7d0f8f2e2f0b5a7c9a3c1f8d2b6e4a10 --bytes 500000000 --report gw1-1042 --json`,
    )
    .action(cli.action(async () => (await runs()).meter))
}

export const commands = [registerPlans] as const

/** Writes a plan's used traffic to the log, for the command that refunds its order. */
export const settleTraffic =
  (context: CliContext): Meter['settle'] =>
  async (planId) =>
    (await import('./meter-traffic.ts')).createMeter(context).settle(planId)
