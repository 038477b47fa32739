import type { Provider, ResellerRail } from '../../domain/payments/payments.ts'
import type { TermsChange } from '../../domain/resellers/decide.ts'
import type { Shop } from '../../domain/resellers/events.ts'
import type { AccountId } from '../../kernel/ids.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import { createVault } from '../../platform/vault/seal.ts'
import { type GatewayCredentials, realCredentials } from '../payments/index.ts'
import { credentialFields } from './credential-forms.ts'
import { botCredentials, createResellerCredentials } from './gateway-credentials.ts'
import { createResellers, type Resellers } from './terms.ts'
import * as input from './terms-input.ts'
import { readCredentials } from './terms-input.ts'
import { changeOutput, refusalOf, termsJson, termsText } from './terms-output.ts'

export type Gateway = {
  readonly account: AccountId
  readonly rail: ResellerRail
  readonly provider?: Provider
  readonly credentials?: string
  readonly sandbox?: true
  readonly remove?: true
}

/** Null: removes the gateway. */
const credentialsOf = async (
  provider: Provider | undefined,
  file: string | undefined,
  sandbox: true | undefined,
): Promise<GatewayCredentials | null> => {
  if (provider === undefined) return null
  if (sandbox) return { provider, sandbox }
  return file === undefined
    ? null
    : readCredentials(file, realCredentials, { provider }, credentialFields[provider])
}

type Settings = {
  readonly account: AccountId
  readonly discount?: number
  /** False: removes it. */
  readonly markup?: number | false
  readonly sellable?: readonly string[]
  readonly sellAll?: true
  readonly merchantName?: string | false
  readonly website?: string | false
  readonly storefront?: string | false
  readonly bot?: string | false
}

const orNull = <Value>(value: Value | false): Value | null => (value === false ? null : value)

const changeOf = (options: Settings): Omit<TermsChange, 'gateway' | 'bot'> => {
  const { discount, markup, sellable, sellAll, merchantName, website, storefront } = options
  const shop: Partial<Shop> = {
    ...(merchantName !== undefined && { merchantName: orNull(merchantName) }),
    ...(website !== undefined && { website: orNull(website) }),
    ...(storefront !== undefined && { storefrontLink: orNull(storefront) }),
  }
  return {
    ...(discount !== undefined && { discountBp: discount }),
    ...(markup !== undefined && { markupMillionths: orNull(markup) }),
    ...(sellable !== undefined && { sellable }),
    ...(sellAll && { sellable: null }),
    ...(Object.keys(shop).length > 0 && { shop }),
  }
}

export type Retail = {
  readonly account: AccountId
  readonly product: string
  readonly country?: readonly string[]
  readonly periodDays?: readonly number[]
  readonly price?: number
  readonly remove?: true
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
  { account, rail, provider, credentials, sandbox }: Gateway,
) => {
  const secrets = await credentialsOf(provider, credentials, sandbox)
  const result = await resellersOf(context).setGateway(account, rail, secrets, context)
  const statusText = secrets === null ? 'has no gateway any more' : `is served by ${provider} now`
  return changeOutput(account, result, `the rail ${rail} ${statusText}`)
}

export const setTerms = async (context: CliContext, options: Settings) => {
  const { account, bot } = options
  const resellers = resellersOf(context)
  const token =
    typeof bot === 'string'
      ? await input.readCredentials(bot, botCredentials, { provider: 'telegram' }, '{"token"}')
      : null
  const result = await resellers.change(account, changeOf(options), context)
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

export const setRetail = async (context: CliContext, options: Retail) => {
  const { account, product, country = [], periodDays = [], price = null } = options
  const retail = { productId: product, countries: country, periods: periodDays, unitPriceMicros: price }
  const result = await resellersOf(context).change(account, { retail }, context)
  return changeOutput(account, result, 'the retail prices are changed')
}

export const show = async (context: CliContext, account: AccountId) => {
  const read = await resellersOf(context).read(account, context)
  if (read.outcome === 'refused') throw refusalOf(read.refusal)
  return { json: termsJson(account, read.terms), text: termsText(account, read.terms) }
}
