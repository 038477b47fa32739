import type { CustomerAdjustmentReason } from '../../domain/ledger/adjustment-reasons.ts'
import type { AccountId, CustomerId } from '../../kernel/ids.ts'
import { microsToCentsFloor } from '../../kernel/money.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import { CliMisuse, type CliOutput, dollars } from '../../platform/cli/output.ts'
import {
  type CustomerRecord,
  createAccounts,
  createCustomers,
  findCustomer,
  type ListedResource,
  listCustomers,
  type Owned,
} from '../accounts/index.ts'
import { approvalNeeded, createWallets, refusalOf } from '../wallet/index.ts'

type Shown = {
  readonly customerId: CustomerId
  /** The reseller's own id; null once erased. */
  readonly customer: string | null
  readonly label: string | null
  readonly creditCents: number
  readonly owedCents: number
  readonly createdAt: string
}

/** The account, which must be a reseller: other accounts have no customers. @throws CliMisuse */
const resellerOf = async (context: CliContext, accountId: AccountId): Promise<AccountId> => {
  const account = await createAccounts(context).read(accountId, context)
  if (!account)
    throw new CliMisuse(`no account has the id ${accountId}; "accounts create" makes one`, {}, 'not_found')
  if (!account.reseller) throw new CliMisuse(`${accountId} is not a reseller, so it has no customers`)
  return accountId
}

const withBalances = async (
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

export const customers: ListedResource<Shown> = {
  owner: { table: 'vault.customers', id: 'customer_id' },
  reads: (context) => ({
    list: async ({ accountId }, page) => {
      if (accountId !== null) await resellerOf(context, accountId)
      const found = await listCustomers(context.pool, accountId, page)
      return { rows: await withBalances(context, found.customers), total: found.total }
    },
    find: async (account, id) => {
      const found = await findCustomer(context.pool, account, id)
      return found ? ((await withBalances(context, [found]))[0] ?? null) : null
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

type CustomerSelector = { readonly customer?: string; readonly id?: string }

type ResolvedCustomer = {
  readonly customerId: CustomerId
  /** Stores the relation after the movement. */
  relate(): Promise<unknown>
}

/** Finds the customer by the reseller's own id (the first movement creates the relation) or by ours. */
const customerOf = async (
  context: CliContext,
  reseller: AccountId,
  { customer, id }: CustomerSelector,
): Promise<ResolvedCustomer> => {
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

type Movement = CustomerSelector & {
  readonly account: AccountId
  readonly cents: number
  readonly reference: string
  readonly reason: CustomerAdjustmentReason
  readonly gateway?: string
}

export const move = async (context: CliContext, movement: Movement): Promise<CliOutput> => {
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
  // If an earlier command stopped in between, this run stores the relation.
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

export const credit = (context: CliContext, options: Omit<Movement, 'reason'>) =>
  move(context, { ...options, reason: 'payment' })
