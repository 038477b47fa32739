import { type Command, Option } from 'commander'
import type { AccountId } from '../../kernel/ids.ts'
import { type Provider, type ResellerRail, resellerRails } from '../../money/payments/rails.ts'
import type { Cli, CliContext } from '../../platform/cli/cli.ts'
import {
  credentialFields,
  type GatewayCredentials,
  providersOf,
  realCredentials,
} from './credential-forms.ts'
import { readCredentials } from './input.ts'
import { changeOutput } from './output.ts'
import type { Resellers } from './service.ts'

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
