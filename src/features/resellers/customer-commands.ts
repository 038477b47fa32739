import { type Command, InvalidArgumentError } from 'commander'
import type { CustomerAdjustmentReason } from '../../domain/ledger/manual-movements.ts'
import { externalIdForm, parseExternalId } from '../../kernel/external-id.ts'
import type { AccountId, CustomerId } from '../../kernel/ids.ts'
import { microsToCentsFloor } from '../../kernel/money.ts'
import { type Cli, type CliContext, wholeNumber } from '../../platform/cli/cli-context.ts'
import { CliMisuse, type CliOutput, dollars } from '../../platform/cli/output.ts'
import {
  type CustomerRecord,
  createAccounts,
  createCustomers,
  findCustomer,
  type ListedResource,
  listCustomers,
  type Owned,
  registerListCommands,
} from '../accounts/index.ts'
import {
  approvalNeeded,
  createWallets,
  maxCents,
  parseGatewayName,
  parseReference,
  parseSignedCents,
  refusalOf,
} from '../wallet/index.ts'

/** The account, which must be a reseller: no other has customers. @throws CliMisuse */
export const resellerOf = async (context: CliContext, accountId: AccountId): Promise<AccountId> => {
  const account = await createAccounts(context).read(accountId, context)
  if (!account)
    throw new CliMisuse(`no account has the id ${accountId}; "accounts create" makes one`, {}, 'not_found')
  if (!account.reseller) throw new CliMisuse(`${accountId} is not a reseller, so it has no customers`)
  return accountId
}

type Shown = {
  readonly customerId: CustomerId
  /** The reseller's own id; null once it was erased. */
  readonly customer: string | null
  readonly label: string | null
  readonly creditCents: number
  readonly owedCents: number
  readonly createdAt: string
}

const withMoney = async (
  context: CliContext,
  records: readonly CustomerRecord[],
): Promise<readonly Owned<Shown>[]> => {
  const wallets = createWallets(context)
  const resellers = [...new Set(records.map(({ accountId }) => accountId))]
  const credits = new Map(
    await Promise.all(
      resellers.map(async (reseller) => [reseller, await wallets.customerCredit(reseller, context)] as const),
    ),
  )
  return records.map(({ customerId, accountId, ref, label, createdAt }) => {
    const { availableMicros, receivableMicros } = credits.get(accountId)!(customerId)
    const creditCents = microsToCentsFloor(availableMicros)
    const owedCents = microsToCentsFloor(receivableMicros)
    return { customerId, customer: ref, label, creditCents, owedCents, createdAt, accountId }
  })
}

const customers: ListedResource<Shown> = {
  name: 'customers',
  one: 'customer',
  exampleId: 'cus_…',
  owner: { table: 'vault.customers', id: 'customer_id' },
  reads: (context) => ({
    list: async ({ accountId }, page) => {
      if (accountId !== null) await resellerOf(context, accountId)
      const found = await listCustomers(context.pool, accountId, page)
      return { rows: await withMoney(context, found.customers), total: found.total }
    },
    find: async (account, id) => {
      const found = await findCustomer(context.pool, account, id)
      return found ? ((await withMoney(context, [found]))[0] ?? null) : null
    },
  }),
  columns: [
    { title: 'id', value: (row) => row.customerId },
    { title: 'own id', value: (row) => row.customer ?? '(erased)' },
    { title: 'label', value: (row) => row.label ?? '-' },
    { title: 'credit', value: (row) => dollars(row.creditCents), align: 'right' },
    { title: 'owed', value: (row) => dollars(row.owedCents), align: 'right' },
    { title: 'since', value: (row) => row.createdAt },
  ],
  show: (row) => ({
    customer: row.customerId,
    'own id': row.customer ?? '(erased)',
    label: row.label,
    credit: dollars(row.creditCents),
    owed: dollars(row.owedCents),
    since: row.createdAt,
  }),
}

/** `customers list|show` */
export const registerCustomerList = (command: Command, cli: Cli): void =>
  registerListCommands(command, cli, customers)

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
  const id = parseExternalId(text)
  if (id !== null) return id
  throw new InvalidArgumentError(`It must be ${externalIdForm}.`)
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
  const customers = program.command('customers').addHelpText('after', examples)
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
        parseReference,
      )

  movement('credit', 'credit what a customer paid its reseller outside of any gateway')
    .requiredOption('--cents <n>', 'whole cents above 0', wholeNumber(1, maxCents))
    .action(
      cli.action((context, given: Omit<Movement, 'reason'>) =>
        move(context, { ...given, reason: 'payment' }),
      ),
    )
  movement('adjust', 'correct the credit of a customer up or down; what a chargeback misses is owed')
    .requiredOption('--cents <n>', 'whole cents, below 0 to take', parseSignedCents)
    .option('--reason <reason>', reasons.join(', '), oneReason, 'correction')
    .option(
      '--gateway <name>',
      "the reseller's gateway that a chargeback takes the money from, e.g. stripe",
      parseGatewayName,
    )
    .action(cli.action(move))
}
