import { InvalidArgumentError } from 'commander'
import { customerAdjustmentReasons } from '../../domain/ledger/adjustment-reasons.ts'
import { resellerRails } from '../../domain/payments/payments.ts'
import { externalIdForm, parseExternalId } from '../../kernel/external-id.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { command } from '../../platform/cli/command.ts'
import {
  argument,
  defaulted,
  flag,
  id,
  oneOf,
  option,
  removable,
  required,
} from '../../platform/cli/input.ts'
import { resourceCommands } from '../accounts/for-commands.ts'
import { adjustmentCents, creditCents, reference, reversalGateway } from '../wallet/for-commands.ts'
import { credentialFields, providersOf } from './credential-forms.ts'
import * as input from './terms-input.ts'

const runs = () => import('./run-commands.ts')

const reseller = { account: required('<id>', 'the reseller', id<AccountId>) }

const externalId = (text: string): string => {
  const parsed = parseExternalId(text)
  if (parsed !== null) return parsed
  throw new InvalidArgumentError(`It must be ${externalIdForm}.`)
}

const customerInput = {
  ...reseller,
  customer: option(
    '<id>',
    "the reseller's id of the customer; the first use creates the customer",
    externalId,
  ),
  id: option('<cus_…>', "Farebox's id of the customer"),
  reference,
}

export const adjustCustomerInput = {
  ...customerInput,
  cents: adjustmentCents,
  reason: defaulted('<reason>', 'why', 'correction', oneOf(customerAdjustmentReasons)),
  gateway: reversalGateway,
}

export const setTermsInput = {
  ...reseller,
  discount: option('<percent>', 'off the list price, 0 to 99.99, e.g. 12.5', input.parseDiscount),
  markup: removable(
    '<multiple>',
    'customers pay this multiple of the list price, e.g. 1.30',
    'customers pay the list price, if there is no retail price',
    input.parseMarkup,
  ),
  priceLimits: removable(
    '<from-to>',
    'the reseller may set its prices between these multiples of the list price, e.g. 1.00-3.00',
    'the reseller may not set its prices',
    input.parsePriceLimits,
  ),
  sellable: option('<products>', 'the products that customers may order, commas between', input.parseNames),
  sellAll: flag('customers may order every product', 'sellable'),
  merchantName: removable(
    '<text>',
    'the name on the pay page; stored in the log permanently',
    'no name',
    input.parseMerchantName,
  ),
  website: removable('<url>', 'https; customers return here after paying', 'no website', input.parseHttpsUrl),
  storefront: removable(
    '<url>',
    'https; the shop in a messaging app, e.g. https://t.me/acme',
    'no storefront',
    input.parseHttpsUrl,
  ),
  bot: removable(
    '<file>',
    'a JSON file {"token"} of the Telegram bot that writes to customers, with {"chatId"} also to the reseller; "-" is standard input',
    'no bot',
  ),
}

export const retailInput = {
  ...reseller,
  product: required('<id>', 'a product'),
  country: option('<codes>', 'alpha-3, commas between; for dedicated IPs', input.parseCountries),
  periodDays: option('<days>', 'commas between; for dedicated IPs', input.parsePeriods),
  price: option(
    '<dollars>',
    'for one unit, e.g. 3.50, or by quantity, e.g. 1:3.50,10:3.20',
    input.parsePriceTiers,
  ),
  allowBelowCost: flag("the price may be below the reseller's cost"),
  remove: flag('the markup applies again', 'price', 'allowBelowCost'),
}

export const gatewayInput = {
  ...reseller,
  rail: required('<rail>', 'how customers pay', oneOf(resellerRails)),
  provider: option(
    '<name>',
    'stripe for card; btcpay or nowpayments for crypto',
    oneOf(Object.values(providersOf).flat()),
  ),
  credentials: option('<file>', 'a JSON file, "-" for standard input'),
  sandbox: flag('the sandbox of the provider, if this installation runs one', 'credentials'),
  remove: flag('no gateway for this rail', 'provider', 'credentials', 'sandbox'),
}

export const commands = [
  ...resourceCommands(
    { name: 'customers', one: 'customer', exampleId: 'cus_…' },
    async () => (await runs()).customers,
  ),
  command({
    name: 'customers credit',
    about: 'credit a payment that a customer made to its reseller outside of any gateway',
    input: { ...customerInput, cents: creditCents },
    examples: [
      'bin/farebox customers credit --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --customer alice-17 --cents 2500 --reference "invoice 2026-11"',
    ],
    run: async () => (await runs()).credit,
  }),
  command({
    name: 'customers adjust',
    about:
      'correct the credit of a customer up or down; the shortfall of a chargeback or a deposit_refund is owed',
    input: adjustCustomerInput,
    examples: [
      'bin/farebox customers adjust --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --customer alice-17 --cents -500 --reason correction --reference "paid twice"',
    ],
    run: async () => (await runs()).move,
  }),
  command({
    name: 'reseller set',
    about: "change a reseller's discount, markup and shop; other settings stay",
    input: setTermsInput,
    // Commander sets no value for an unused `--no-…` option.
    check: (given) =>
      Object.keys(given).every((name) => name === 'account' || name === 'json')
        ? 'name something to change'
        : null,
    examples: [
      'bin/farebox reseller set --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --discount 12.5 --markup 1.30',
      'bin/farebox reseller set --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --merchant-name "Acme Proxies" --website https://acme.example/',
      'bin/farebox reseller set --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --sellable isp-static,residential-premium',
      'bin/farebox reseller set --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --price-limits 1.00-3.00',
      `echo '{"token":"123456:AbC"}' | bin/farebox reseller set --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --bot -`,
    ],
    run: async () => (await runs()).setTerms,
  }),
  command({
    name: 'reseller retail',
    about: 'set the price of one unit for customers; it overrides the markup',
    input: retailInput,
    check: ({ price, remove }) => (price === undefined && !remove ? 'give --price or --remove' : null),
    examples: [
      'bin/farebox reseller retail --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --product residential-premium --price 6.50',
      'bin/farebox reseller retail --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --product residential-premium --price 1:6.50,100:4.80',
      'bin/farebox reseller retail --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --product isp-static --country USA,DEU --period-days 30 --price 3.50',
      'bin/farebox reseller retail --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --product isp-static --country DEU --period-days 30 --remove',
    ],
    run: async () => (await runs()).setRetail,
  }),
  command({
    name: 'reseller gateway',
    about: "set or remove the reseller's own gateway of a rail; open invoices are still polled",
    input: gatewayInput,
    check: ({ rail, provider, credentials, sandbox, remove }) => {
      if (remove) return null
      if (provider === undefined || (credentials === undefined && !sandbox))
        return 'give --provider and --credentials (or --sandbox), or --remove'
      return providersOf[rail].includes(provider)
        ? null
        : `the rail ${rail} is served by ${providersOf[rail].join(' or ')}, not ${provider}`
    },
    details: `The credentials are a JSON object with the fields of the provider:
${Object.entries(credentialFields)
  .map(([provider, form]) => `  ${provider.padEnd(12)}${form}`)
  .join('\n')}
They are encrypted with FAREBOX_MASTER_KEY and never shown again. At the provider, set the callback address to
{FAREBOX_PUBLIC_URL}/callbacks/{reference}, with the reference from "reseller show".`,
    examples: [
      'bin/farebox reseller gateway --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --rail card --provider stripe --credentials stripe.json',
      'pass show btcpay | bin/farebox reseller gateway --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --rail crypto --provider btcpay --credentials -',
      'bin/farebox reseller gateway --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --rail card --provider stripe --sandbox',
      'bin/farebox reseller gateway --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --rail card --remove',
    ],
    run: async () => (await runs()).setGateway,
  }),
  command({
    name: 'reseller show',
    about: "show a reseller's settings as the log has them",
    input: { account: argument('<accountId>', 'the reseller', id<AccountId>) },
    run: async () => (await runs()).show,
  }),
]
