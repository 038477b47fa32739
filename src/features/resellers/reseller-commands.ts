import { type Command, Option } from 'commander'
import { resellerRails } from '../../domain/payments/payments.ts'
import type { Cli } from '../../platform/cli/cli-context.ts'
import { credentialFields, providersOf } from './credential-forms.ts'
import type { Gateway, Retail } from './run-reseller-commands.ts'
import * as input from './terms-input.ts'

/** Loaded when a command runs. */
const runs = () => import('./run-reseller-commands.ts')

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

/** `reseller gateway`: the reseller's own gateways for customers' payments, one for each rail. */
const registerGateway = (reseller: Command, cli: Cli): void => {
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
    .action(cli.action(async () => (await runs()).setGateway))
}

export const setExamples = `
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
      // Commander sets no value for an unused `--no-…` option.
      if (Object.keys(command.opts()).filter((name) => name !== 'account' && name !== 'json').length === 0)
        command.error('error: name something to change')
    })
    .action(cli.action(async () => (await runs()).setTerms))
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
    .action(cli.action(async () => (await runs()).setRetail))
}

/** `reseller set|retail|gateway|show` */
export const registerReseller = (program: Command, cli: Cli): void => {
  const reseller = program.command('reseller')
  registerSet(reseller, cli)
  registerRetail(reseller, cli)
  registerGateway(reseller, cli)
  reseller
    .command('show <accountId>')
    .description("show a reseller's settings as the log has them")
    .action(cli.action(async () => (await runs()).show))
}
