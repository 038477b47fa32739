import type pg from 'pg'
import { isAtGateway } from '../../domain/ledger/adjustment-reasons.ts'
import type { Provider } from '../../domain/payments/payments.ts'
import type { TermsChange } from '../../domain/resellers/decide.ts'
import type { Shop } from '../../domain/resellers/events.ts'
import type { AccountId, CustomerId } from '../../kernel/ids.ts'
import { microsToCentsCeil, microsToCentsFloor } from '../../kernel/money.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import type { InputOf } from '../../platform/cli/input.ts'
import { CliMisuse, type CliOutput, dollars, notFound } from '../../platform/cli/output.ts'
import { createVault } from '../../platform/vault/seal.ts'
import {
  type CustomerRecord,
  type Customers,
  createAccounts,
  createCustomers,
  findCustomer,
  type ListedResource,
  listCustomers,
  type Owned,
} from '../accounts/index.ts'
import { type GatewayCredentials, realCredentials } from '../payments/index.ts'
import { gatewayProblem } from '../wallet/for-commands.ts'
import { approvalNeeded, createWallets, refusalOf as movementRefusal } from '../wallet/index.ts'
import type { adjustCustomerInput, gatewayInput, retailInput, setTermsInput } from './commands.ts'
import { credentialFields } from './credential-forms.ts'
import { botCredentials, createResellerCredentials } from './gateway-credentials.ts'
import { moveCredit } from './move-credit.ts'
import { createResellers, type Resellers } from './terms.ts'
import { readCredentials } from './terms-input.ts'
import { changeOutput, refusalOf, termsJson, termsText } from './terms-output.ts'

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
  if (!account) throw notFound(`no account has the id ${accountId}; "accounts create" makes one`)
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
    const owedCents = microsToCentsCeil(receivableMicros)
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
  fields: {
    customer: 'customerId',
    'own id': (row) => row.customer ?? '(erased)',
    label: 'label',
    credit: (row) => dollars(row.creditCents),
    owed: (row) => dollars(row.owedCents),
    since: 'createdAt',
  },
}

type AdjustInput = InputOf<typeof adjustCustomerInput>

/** The customer by the reseller's own id (the first movement creates it) or by ours. */
const customerOf = async (
  pool: pg.Pool,
  customers: Pick<Customers, 'idOf'>,
  reseller: AccountId,
  { customer, id }: Pick<AdjustInput, 'customer' | 'id'>,
): Promise<{ readonly customerId: CustomerId; readonly ref: string | null }> => {
  if ((customer === undefined) === (id === undefined))
    throw new CliMisuse("give --customer (the reseller's own id) or --id (cus_…), not both")
  if (customer !== undefined) return { customerId: customers.idOf(reseller, customer), ref: customer }
  const found = await findCustomer(pool, reseller, id ?? '')
  if (!found) throw notFound(`${reseller} has no customer with the id ${id}`)
  return { customerId: found.customerId, ref: null }
}

export const move = async (context: CliContext, input: AdjustInput): Promise<CliOutput> => {
  const { account, cents, reason, reference, gateway } = input
  if (isAtGateway(reason) !== (gateway !== undefined)) throw new CliMisuse(gatewayProblem)
  const accountId = await resellerOf(context, account)
  const { pool, keys } = context
  const customers = createCustomers({ pool, master: keys.master })
  const customer = await customerOf(pool, customers, accountId, input)
  const { customerId } = customer
  const answer = await moveCredit(
    { wallets: createWallets(context), customers },
    accountId,
    { ...customer, amountCents: cents, reference, reason, gateway: gateway ?? null },
    context,
  )
  if (answer.outcome === 'refused') throw movementRefusal(answer.refusal, 'the customer')
  if (answer.outcome !== 'applied') throw approvalNeeded(answer)
  const { balanceCents: creditCents } = answer
  return {
    json: {
      accountId,
      customerId,
      reference,
      amountCents: microsToCentsFloor(answer.amountMicros),
      creditCents,
      currency: 'USD',
    },
    text: `moved ${dollars(cents)}; ${customerId} has ${dollars(creditCents)}`,
  }
}

export const credit = (context: CliContext, input: Omit<AdjustInput, 'reason' | 'gateway'>) =>
  move(context, { ...input, reason: 'payment' })

/** Null: removes the gateway. */
const credentialsOf = async (
  provider: Provider | undefined,
  file: string | undefined,
  sandbox: boolean | undefined,
): Promise<GatewayCredentials | null> => {
  if (provider === undefined) return null
  if (sandbox) return { provider, sandbox }
  return file === undefined
    ? null
    : readCredentials(file, realCredentials, { provider }, credentialFields[provider])
}

const orNull = <Value>(value: Value | false): Value | null => (value === false ? null : value)

type SetTermsInput = InputOf<typeof setTermsInput>

const changeOf = (input: SetTermsInput): Omit<TermsChange, 'gateway' | 'bot'> => {
  const { discount, markup, priceLimits, sellable, sellAll, merchantName, website, storefront } = input
  const shop: Partial<Shop> = {
    ...(merchantName !== undefined && { merchantName: orNull(merchantName) }),
    ...(website !== undefined && { website: orNull(website) }),
    ...(storefront !== undefined && { storefrontLink: orNull(storefront) }),
  }
  return {
    ...(discount !== undefined && { discountBp: discount }),
    ...(markup !== undefined && { markupMillionths: orNull(markup) }),
    ...(priceLimits !== undefined && { priceLimits: orNull(priceLimits) }),
    ...(sellable !== undefined && { sellable }),
    ...(sellAll && { sellable: null }),
    ...(Object.keys(shop).length > 0 && { shop }),
  }
}

const resellersOf = (context: CliContext): Resellers =>
  createResellers({
    runner: context.runner,
    credentials: createResellerCredentials({
      pool: context.pool,
      vault: createVault(context.keys.master),
    }),
  })

export const setGateway = async (
  context: CliContext,
  { account, rail, provider, credentials, sandbox }: InputOf<typeof gatewayInput>,
) => {
  const secrets = await credentialsOf(provider, credentials, sandbox)
  const result = await resellersOf(context).setGateway(account, rail, secrets, context)
  const statusText = secrets === null ? 'has no gateway any more' : `is served by ${provider} now`
  return changeOutput(account, result, `the rail ${rail} ${statusText}`)
}

export const setTerms = async (context: CliContext, input: SetTermsInput) => {
  const { account, bot } = input
  const resellers = resellersOf(context)
  const token =
    typeof bot === 'string'
      ? await readCredentials(
          bot,
          botCredentials,
          { provider: 'telegram' },
          '{"token"}, and {"chatId"} if the bot writes to the reseller, too',
        )
      : null
  const result = await resellers.change(account, changeOf(input), context)
  const bots =
    bot === undefined || result.outcome === 'refused'
      ? result
      : await resellers.setBot(account, token, context)
  const changed =
    bots.outcome === 'done' && result.outcome === 'done'
      ? { ...bots, changed: bots.changed || result.changed }
      : bots
  return changeOutput(account, changed, 'the settings are changed')
}

export const setRetail = async (
  context: CliContext,
  {
    account,
    product,
    country,
    periodDays,
    price: tiers,
    allowBelowCost: belowCost = false,
  }: InputOf<typeof retailInput>,
) => {
  const retail = {
    productId: product,
    countries: country ?? [],
    periods: periodDays ?? [],
    price: tiers === undefined ? null : { tiers, belowCost },
  }
  const result = await resellersOf(context).change(account, { retail }, context)
  return changeOutput(account, result, 'the retail prices are changed')
}

export const show = async (context: CliContext, { account }: { readonly account: AccountId }) => {
  const read = await resellersOf(context).read(account, context)
  if (read.outcome === 'refused') throw refusalOf(read.refusal)
  return { json: termsJson(account, read), text: termsText(account, read) }
}
