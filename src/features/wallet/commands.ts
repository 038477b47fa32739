import { type Command, InvalidArgumentError } from 'commander'
import { type AdjustmentReason, adjustmentReasons } from '../../domain/ledger/adjustment-reasons.ts'
import { type Cli, wholeNumber } from '../../platform/cli/cli-context.ts'
import { parseGatewayName, parseReference, parseSignedCents } from './for-commands.ts'
import { maxCents } from './input-forms.ts'

/** Imported lazily, when a command runs. */
const runs = () => import('./run-commands.ts')

const reasons: readonly AdjustmentReason[] = adjustmentReasons

const oneReason = (text: string): AdjustmentReason => {
  const reason = reasons.find((known) => known === text)
  if (reason) return reason
  throw new InvalidArgumentError(`It must be one of ${reasons.join(', ')}.`)
}

/** `wallet credit|adjust` */
export const registerWallet = (program: Command, cli: Cli): void => {
  const wallet = program.command('wallet')
  wallet
    .command('credit')
    .description('credit a wallet; the same reference is credited once for ever')
    .requiredOption('--account <id>', 'the account')
    .requiredOption('--cents <n>', 'whole cents above 0', wholeNumber(1, maxCents))
    .requiredOption(
      '--reference <text>',
      'what it is for: it stands in the log for ever, name no person',
      parseReference,
    )
    .action(cli.action(async () => (await runs()).credit))
  wallet
    .command('adjust')
    .description(
      'correct a wallet up or down; a chargeback also blocks the account, and what is missing is owed',
    )
    .requiredOption('--account <id>', 'the account')
    .requiredOption('--cents <n>', 'whole cents, below 0 to take', parseSignedCents)
    .requiredOption(
      '--reference <text>',
      'what it is for: it stands in the log for ever, name no person',
      parseReference,
    )
    .option('--reason <reason>', reasons.join(', '), oneReason, 'correction')
    .option(
      '--gateway <name>',
      'the gateway that a chargeback takes the money from, e.g. stripe',
      parseGatewayName,
    )
    .hook('preAction', (command) => {
      const { reason, gateway } = command.opts<{ reason: AdjustmentReason; gateway?: string }>()
      if ((reason === 'chargeback') !== (gateway !== undefined))
        command.error('error: give --gateway with --reason chargeback, and only then')
    })
    .action(cli.action(async () => (await runs()).adjust))
}

export const commands = [registerWallet] as const
