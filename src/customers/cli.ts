import { type Command, InvalidArgumentError } from 'commander'
import { createAccounts } from '../accounts/service.ts'
import { type Cli, type CliContext, wholeNumber } from '../cli/cli.ts'
import { CliMisuse, type CliOutput, dollars, table } from '../cli/output.ts'
import type { AccountId, CustomerId } from '../ids.ts'
import type { CustomerAdjustmentReason } from '../ledger/adjustment-reason.ts'
import { gateway, maxCents, reference, refusalOf, signedCents } from '../ledger/cli.ts'
import { microsToCentsFloor } from '../ledger/money.ts'
import { createWallets } from '../ledger/service.ts'
import { createCustomers } from './service.ts'
import { findCustomer, listCustomers } from './vault.ts'

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
  if (/^[^\p{C}]{1,128}$/u.test(text)) return text
  throw new InvalidArgumentError('It must be 1 to 128 printable characters.')
}

const resellerOf = async (context: CliContext, accountId: AccountId): Promise<AccountId> => {
  const account = await createAccounts(context).read(accountId, context)
  if (!account)
    throw new CliMisuse(`no account has the id ${accountId}; "accounts create" makes one`, {}, 'not_found')
  if (!account.reseller) throw new CliMisuse(`${accountId} is no reseller, it has no customers`)
  return accountId
}

type Named = { readonly customer?: string; readonly id?: string }

/** Who is meant: by the reseller's own id (the first use makes the relation), or by ours. */
const customerOf = async (
  context: CliContext,
  reseller: AccountId,
  { customer, id }: Named,
): Promise<CustomerId> => {
  if ((customer === undefined) === (id === undefined))
    throw new CliMisuse("give --customer (the reseller's own id) or --id (cus_…), not both")
  if (customer !== undefined)
    return createCustomers({ pool: context.pool, master: context.keys.master }).ensure(reseller, customer)
  const found = await findCustomer(context.pool, reseller, id ?? '')
  if (!found) throw new CliMisuse(`${reseller} has no customer with the id ${id}`, {}, 'not_found')
  return found.customerId
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
  const customerId = await customerOf(context, accountId, movement)
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
  if (answer.outcome === 'refused') throw refusalOf(answer.refusal, 'the customer')
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

const list = async (
  context: CliContext,
  options: { readonly account: AccountId; readonly limit: number; readonly offset: number },
): Promise<CliOutput> => {
  const accountId = await resellerOf(context, options.account)
  const { limit, offset } = options
  const { customers, total } = await listCustomers(context.pool, accountId, { limit, offset })
  const credit = await createWallets(context).customerCredit(accountId, context)
  const rows = customers.map(({ customerId, ref, label, createdAt }) => {
    const { creditMicros, receivableMicros } = credit(customerId)
    const creditCents = microsToCentsFloor(creditMicros)
    const owedCents = microsToCentsFloor(receivableMicros)
    return { customerId, customer: ref, label, creditCents, owedCents, createdAt }
  })
  const text = table(
    rows,
    [
      { title: 'id', value: (row) => row.customerId },
      { title: 'own id', value: (row) => row.customer ?? '(erased)' },
      { title: 'label', value: (row) => row.label ?? '-' },
      { title: 'credit', value: (row) => dollars(row.creditCents), align: 'right' },
      { title: 'owed', value: (row) => dollars(row.owedCents), align: 'right' },
      { title: 'since', value: (row) => row.createdAt },
    ],
    'no customers yet: the first deposit or order for one makes it',
  )
  return { json: { customers: rows, total, limit, offset }, text: `${text}\n\n${rows.length} of ${total}` }
}

const examples = `
Examples:
  farebox customers list --account acc_…
  farebox customers credit --account acc_… --customer alice-17 --cents 2500 --reference "invoice 2026-11"
  farebox customers adjust --account acc_… --customer alice-17 --cents -500 --reason correction --reference "paid twice"`

/** `customers list|credit|adjust` */
export const registerCustomers = (program: Command, cli: Cli): void => {
  const customers = program
    .command('customers')
    .description("list resellers' customers and move their credit by hand")
    .addHelpText('after', examples)
  customers
    .command('list')
    .description("list a reseller's customers with their credit, newest first")
    .requiredOption('--account <id>', 'the reseller')
    .option('--limit <n>', 'at most this many', wholeNumber(1, 1_000), 50)
    .option('--offset <n>', 'leave out the first ones', wholeNumber(0), 0)
    .action(cli.action(list))

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
