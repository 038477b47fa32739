import { type Command, InvalidArgumentError } from 'commander'
import type { CustomerAdjustmentReason } from '../../domain/ledger/adjustment-reasons.ts'
import { externalIdForm, parseExternalId } from '../../kernel/external-id.ts'
import { type Cli, wholeNumber } from '../../platform/cli/cli-context.ts'
import { registerListCommands } from '../accounts/for-commands.ts'
import { maxCents, parseGatewayName, parseReference, parseSignedCents } from '../wallet/for-commands.ts'

/** Loaded when a command runs. */
const runs = () => import('./run-customer-commands.ts')

const reasons = [
  'payment',
  'correction',
  'goodwill',
  'chargeback',
] as const satisfies readonly CustomerAdjustmentReason[]

const parseReason = (text: string): CustomerAdjustmentReason => {
  const reason = reasons.find((known) => known === text)
  if (reason) return reason
  throw new InvalidArgumentError(`It must be one of ${reasons.join(', ')}.`)
}

const ownId = (text: string): string => {
  const id = parseExternalId(text)
  if (id !== null) return id
  throw new InvalidArgumentError(`It must be ${externalIdForm}.`)
}

const examples = `
Examples:
  npx farebox customers credit --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --customer alice-17 --cents 2500 --reference "invoice 2026-11"
  npx farebox customers adjust --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --customer alice-17 --cents -500 --reason correction --reference "paid twice"`

/** `customers list|show|credit|adjust` */
export const registerCustomers = (program: Command, cli: Cli): void => {
  const customers = program.command('customers').addHelpText('after', examples)
  registerListCommands(
    customers,
    cli,
    { name: 'customers', one: 'customer', exampleId: 'cus_…' },
    async () => (await runs()).customers,
  )

  const movement = (name: string, description: string): Command =>
    customers
      .command(name)
      .description(description)
      .requiredOption('--account <id>', 'the reseller')
      .option(
        '--customer <own id>',
        "the reseller's own id of the customer; the first use makes the relation",
        ownId,
      )
      .option('--id <cus_…>', 'the customer by our id')
      .requiredOption(
        '--reference <text>',
        'what it is for, once for each customer: it stands in the log for ever, name no person',
        parseReference,
      )

  movement('credit', 'credit what a customer paid its reseller outside of any gateway')
    .requiredOption('--cents <n>', 'whole cents above 0', wholeNumber(1, maxCents))
    .action(cli.action(async () => (await runs()).credit))
  movement('adjust', 'correct the credit of a customer up or down; what a chargeback misses is owed')
    .requiredOption('--cents <n>', 'whole cents, below 0 to take', parseSignedCents)
    .option('--reason <reason>', reasons.join(', '), parseReason, 'correction')
    .option(
      '--gateway <name>',
      "the reseller's gateway that a chargeback takes the money from, e.g. stripe",
      parseGatewayName,
    )
    .action(cli.action(async () => (await runs()).move))
}
