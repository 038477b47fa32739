import type { Command } from 'commander'
import { newId, type PlanId } from '../../kernel/ids.ts'
import { type Cli, wholeNumber } from '../../platform/cli/cli.ts'
import { CliMisuse, CliRefusal, fields } from '../../platform/cli/output.ts'
import { registerPlanList } from './cli-listed.ts'
import { createMeter } from './metering.ts'

type MeterOptions = { readonly plan: string; readonly bytes: number; readonly report?: string }

/** `plans list|show`, `plans meter --plan ID --bytes N [--report ID]`. */
export const registerPlans = (program: Command, cli: Cli): void => {
  const plans = program.command('plans').description('list plans, look at them and count traffic on them')
  registerPlanList(plans, cli)

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
    .action(
      cli.action(async (context, options: MeterOptions) => {
        const { plan, bytes, report = newId('rep') } = options
        const answer = await createMeter(context).reportOnce({
          planId: plan as PlanId,
          reportId: report,
          bytes,
        })
        if (!answer.metered)
          throw answer.reason === 'unknown_plan'
            ? new CliMisuse(`no plan has the id ${plan}`, {}, 'not_found')
            : new CliRefusal('already_applied', 'this report was counted before; nothing was added')
        const { usedBytes, remainingBytes } = answer
        return {
          json: { planId: plan, usedBytes, remainingBytes },
          text: fields({ plan, 'used bytes': usedBytes, 'remaining bytes': remainingBytes }),
        }
      }),
    )
}
