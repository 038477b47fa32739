import { type Command, InvalidArgumentError } from 'commander'
import type { AccountId, CustomerId } from '../../kernel/ids.ts'
import type { CustomerAdjustmentReason } from '../../money/ledger/adjustment-reason.ts'
import { approvalNeeded, gateway, reference, refusalOf, signedCents } from '../../money/ledger/cli.ts'
import { maxCents } from '../../money/ledger/most-cents.ts'
import { createWallets } from '../../money/ledger/service.ts'
import { type Cli, type CliContext, wholeNumber } from '../../platform/cli/cli.ts'
import { CliMisuse, type CliOutput, dollars } from '../../platform/cli/output.ts'
import { microsToCentsFloor } from '../../terms/money.ts'
import { ownIdForm, ownIdOf } from '../../terms/own-id.ts'
import { registerCustomerList } from './cli-listed.ts'
import { resellerOf } from './cli-reseller.ts'
import { createCustomers } from './service.ts'
import { findCustomer } from './vault.ts'

const reasons = [
  'payment',
  'correction',
  'goodwill',
  'chargeback',
] as const satisfies readonly CustomerAdjustmentReason[]

const oneReason = (text: string): CustomerAdjustmentReason => {
  const reason = reasons.find((known) => known === text)
  if (reason) return reason
  throw new InvalidArgumentError(`It must be one of ${reasons.join(', ')}.`)
}

const ownId = (text: string): string => {
  const id = ownIdOf(text)
  if (id !== null) return id
  throw new InvalidArgumentError(`It must be ${ownIdForm}.`)
}

type Named = { readonly customer?: string; readonly id?: string }

type Meant = {
  readonly customerId: CustomerId
  /** Makes the relation, once the movement is made. */
  relate(): Promise<unknown>
}

/** Who is meant: by the reseller's own id (the first movement makes the relation), or by ours. */
const customerOf = async (
  context: CliContext,
  reseller: AccountId,
  { customer, id }: Named,
): Promise<Meant> => {
  if ((customer === undefined) === (id === undefined))
    throw new CliMisuse("give --customer (the reseller's own id) or --id (cus_…), not both")
  if (customer !== undefined) {
    const customers = createCustomers({ pool: context.pool, master: context.keys.master })
    return {
      customerId: customers.idOf(reseller, customer),
      relate: () => customers.ensure(reseller, customer),
    }
  }
  const found = await findCustomer(context.pool, reseller, id ?? '')
  if (!found) throw new CliMisuse(`${reseller} has no customer with the id ${id}`, {}, 'not_found')
  return { customerId: found.customerId, relate: async () => undefined }
}

type Movement = Named & {
  readonly account: AccountId
  readonly cents: number
  readonly reference: string
  readonly reason: CustomerAdjustmentReason
  readonly gateway?: string
}

const move = async (context: CliContext, movement: Movement): Promise<CliOutput> => {
  const { account, cents, reason } = movement
  if ((reason === 'chargeback') !== (movement.gateway !== undefined))
    throw new CliMisuse('give --gateway with --reason chargeback, and only then')
  const accountId = await resellerOf(context, account)
  const { customerId, relate } = await customerOf(context, accountId, movement)
  const answer = await createWallets(context).adjustCustomer(
    {
      accountId,
      customerId,
      amountCents: cents,
      reference: movement.reference,
      reason,
      gateway: movement.gateway ?? null,
    },
    context,
  )
  // A command that was stopped between the two makes up for it when it is run again.
  if (answer.outcome !== 'refused' || answer.refusal.code === 'already_applied') await relate()
  if (answer.outcome === 'refused') throw refusalOf(answer.refusal, 'the customer')
  if (answer.outcome !== 'applied') throw approvalNeeded(answer)
  const { balanceCents: creditCents } = answer
  return {
    json: {
      accountId,
      customerId,
      reference: movement.reference,
      amountCents: microsToCentsFloor(answer.amountMicros),
      creditCents,
      currency: 'USD',
    },
    text: `moved ${dollars(cents)}; ${customerId} has ${dollars(creditCents)}`,
  }
}

const examples = `
Examples:
  npx farebox customers credit --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --customer alice-17 --cents 2500 --reference "invoice 2026-11"
  npx farebox customers adjust --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --customer alice-17 --cents -500 --reason correction --reference "paid twice"`

/** `customers list|show|credit|adjust` */
export const registerCustomers = (program: Command, cli: Cli): void => {
  const customers = program
    .command('customers')
    .description("list resellers' customers and move their credit by hand")
    .addHelpText('after', examples)
  registerCustomerList(customers, cli)

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
        reference,
      )

  movement('credit', 'credit what a customer paid its reseller outside of any gateway')
    .requiredOption('--cents <n>', 'whole cents above 0', wholeNumber(1, maxCents))
    .action(
      cli.action((context, given: Omit<Movement, 'reason'>) =>
        move(context, { ...given, reason: 'payment' }),
      ),
    )
  movement('adjust', 'correct the credit of a customer up or down; what a chargeback misses is owed')
    .requiredOption('--cents <n>', 'whole cents, below 0 to take', signedCents)
    .option('--reason <reason>', reasons.join(', '), oneReason, 'correction')
    .option(
      '--gateway <name>',
      "the reseller's gateway that a chargeback takes the money from, e.g. stripe",
      gateway,
    )
    .action(cli.action(move))
}
