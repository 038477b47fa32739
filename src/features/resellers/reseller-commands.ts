import { type Command, Option } from 'commander'
import { type Provider, type ResellerRail, resellerRails } from '../../domain/payments/payments.ts'
import type { TermsChange } from '../../domain/resellers/decide.ts'
import type { Shop } from '../../domain/resellers/events.ts'
import type { AccountId } from '../../kernel/ids.ts'
import type { Cli, CliContext } from '../../platform/cli/cli-context.ts'
import { createVault } from '../../platform/vault/seal.ts'
import { type GatewayCredentials, realCredentials } from '../payments/index.ts'
import {
  botCredentials,
  createResellerCredentials,
  credentialFields,
  providersOf,
} from './gateway-credentials.ts'
import { createResellers, type Resellers } from './terms.ts'
import * as input from './terms-input.ts'
import { readCredentials } from './terms-input.ts'
import { changeOutput, refusalOf, termsJson, termsText } from './terms-output.ts'

type Gateway = {
  readonly account: AccountId
  readonly rail: ResellerRail
  readonly provider?: Provider
  readonly credentials?: string
  readonly sandbox?: true
  readonly remove?: true
}

const help = `
The credentials are a JSON object with the fields of the provider:
${Object.entries(credentialFields)
  .map(([provider, form]) => `  ${provider.padEnd(12)}${form}`)
  .join('\n')}
They are encrypted under FAREBOX_MASTER_KEY and never shown again. At the provider, callbacks go to
{FAREBOX_PUBLIC_URL}/callbacks/{reference}, with the reference that "reseller show" names.

Examples:
  npx farebox reseller gateway --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --rail card --provider stripe --credentials stripe.json
  pass show btcpay | npx farebox reseller gateway --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --rail crypto --provider btcpay --credentials -
  npx farebox reseller gateway --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --rail card --provider stripe --sandbox
  npx farebox reseller gateway --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --rail card --remove`

/** Null: none, which takes the gateway away. */
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

/** `reseller gateway`: where the money of a reseller's customers goes, one gateway a rail. */
export const registerGateway = (
  reseller: Command,
  cli: Cli,
  resellersOf: (context: CliContext) => Resellers,
): void => {
  reseller
    .command('gateway')
    .description(
      "set the reseller's own gateway of a rail, or take it away; open invoices are still followed",
    )
    .requiredOption('--account <id>', 'the reseller')
    .addOption(
      new Option('--rail <rail>', 'what customers pay with').choices(resellerRails).makeOptionMandatory(),
    )
    .addOption(
      new Option('--provider <name>', 'stripe for card; btcpay or nowpayments for crypto').choices(
        Object.values(providersOf).flat(),
      ),
    )
    .option('--credentials <file>', 'a JSON file, "-" for standard input')
    .addOption(
      new Option('--sandbox', 'the stand-in of the provider, where this installation runs one').conflicts(
        'credentials',
      ),
    )
    .addOption(
      new Option('--remove', 'no gateway for this rail').conflicts(['provider', 'credentials', 'sandbox']),
    )
    .addHelpText('after', help)
    .hook('preAction', (command) => {
      const { rail, provider, credentials, sandbox, remove } = command.opts<Gateway>()
      if (remove) return
      if (provider === undefined || (credentials === undefined && !sandbox))
        command.error('error: give --provider and --credentials (or --sandbox), or --remove')
      else if (!providersOf[rail].includes(provider))
        command.error(
          `error: the rail ${rail} is served by ${providersOf[rail].join(' or ')}, not ${provider}`,
        )
    })
    .action(
      cli.action(async (context, { account, rail, provider, credentials, sandbox }: Gateway) => {
        const secrets = await credentialsOf(provider, credentials, sandbox)
        const result = await resellersOf(context).setGateway(account, rail, secrets, context)
        const what = secrets === null ? 'has no gateway any more' : `is served by ${provider} now`
        return changeOutput(account, result, `the rail ${rail} ${what}`)
      }),
    )
}

const resellersOf = (context: CliContext): Resellers =>
  createResellers({
    runner: context.runner,
    credentials: createResellerCredentials({
      pool: context.pool,
      vault: createVault(context.keys.master),
    }),
  })

type Settings = {
  readonly account: AccountId
  readonly discount?: number
  /** False: taken away. */
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

const setExamples = `
Examples:
  npx farebox reseller set --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --discount 12.5 --markup 1.30
  npx farebox reseller set --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --merchant-name "Acme Proxies" --website https://acme.example/
  npx farebox reseller set --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --sellable isp-static,residential-premium
  echo '{"token":"123456:AbC"}' | npx farebox reseller set --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --bot -`

const registerSet = (reseller: Command, cli: Cli): void => {
  reseller
    .command('set')
    .description('change what a reseller pays, asks and shows; what is left out stays')
    .requiredOption('--account <id>', 'the reseller')
    .option('--discount <percent>', 'off the list price, 0 to 99.99, e.g. 12.5', input.parseDiscount)
    .option(
      '--markup <multiple>',
      'customers pay this multiple of the list price, e.g. 1.30',
      input.parseMarkup,
    )
    .option('--no-markup', 'customers pay the list price where no retail price stands')
    .option(
      '--sellable <products>',
      'the products that customers may order, commas between',
      input.parseNames,
    )
    .addOption(new Option('--sell-all', 'customers may order every product').conflicts('sellable'))
    .option(
      '--merchant-name <text>',
      'the name on the pay page; it stands in the log for ever',
      input.parseMerchantName,
    )
    .option('--no-merchant-name', 'no name')
    .option('--website <url>', 'https; where customers land after paying', input.parseHttpsUrl)
    .option('--no-website', 'no website')
    .option(
      '--storefront <url>',
      'https; the shop in a messaging app, e.g. https://t.me/acme',
      input.parseHttpsUrl,
    )
    .option('--no-storefront', 'no storefront')
    .option(
      '--bot <file>',
      'a JSON file {"token"} of the Telegram bot that writes to customers; "-" is standard input',
    )
    .option('--no-bot', 'no bot')
    .addHelpText('after', setExamples)
    .hook('preAction', (command) => {
      // Commander gives a `--no-…` option no value of its own until it is used.
      if (Object.keys(command.opts()).filter((name) => name !== 'account' && name !== 'json').length === 0)
        command.error('error: name something to change')
    })
    .action(
      cli.action(async (context, options: Settings) => {
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
      }),
    )
}

type Retail = {
  readonly account: AccountId
  readonly product: string
  readonly country?: readonly string[]
  readonly periodDays?: readonly number[]
  readonly price?: number
  readonly remove?: true
}

const retailExamples = `
Examples:
  npx farebox reseller retail --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --product residential-premium --price 6.50
  npx farebox reseller retail --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --product isp-static --country USA,DEU --period-days 30 --price 3.50
  npx farebox reseller retail --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --product isp-static --country DEU --period-days 30 --remove`

const registerRetail = (reseller: Command, cli: Cli): void => {
  reseller
    .command('retail')
    .description('set what customers pay for one unit; it comes before the markup')
    .requiredOption('--account <id>', 'the reseller')
    .requiredOption('--product <id>', 'a product')
    .option('--country <codes>', 'alpha-3, commas between; for dedicated IPs', input.parseCountries)
    .option('--period-days <days>', 'commas between; for dedicated IPs', input.parsePeriods)
    .addOption(new Option('--price <dollars>', 'for one unit, e.g. 3.50').argParser(input.parsePrice))
    .addOption(new Option('--remove', 'the markup prices it again').conflicts('price'))
    .addHelpText('after', retailExamples)
    .hook('preAction', (command) => {
      const { price, remove } = command.opts<Retail>()
      if (price === undefined && !remove) command.error('error: give --price or --remove')
    })
    .action(
      cli.action(async (context, options: Retail) => {
        const { account, product, country = [], periodDays = [], price = null } = options
        const retail = { productId: product, countries: country, periods: periodDays, unitPriceMicros: price }
        const result = await resellersOf(context).change(account, { retail }, context)
        return changeOutput(account, result, 'the retail prices are changed')
      }),
    )
}

/** `reseller set|retail|gateway|show` */
export const registerReseller = (program: Command, cli: Cli): void => {
  const reseller = program.command('reseller')
  registerSet(reseller, cli)
  registerRetail(reseller, cli)
  registerGateway(reseller, cli, resellersOf)
  reseller
    .command('show <accountId>')
    .description("show a reseller's settings as the log has them")
    .action(
      cli.action(async (context, account: AccountId) => {
        const read = await resellersOf(context).read(account, context)
        if (read.outcome === 'refused') throw refusalOf(read.refusal)
        return { json: termsJson(account, read.terms), text: termsText(account, read.terms) }
      }),
    )
}
