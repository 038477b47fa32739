import type { Command } from 'commander'
import { type Cli, wholeNumber } from '../../platform/cli/cli-context.ts'

/** Imported lazily, when a command runs. */
const runs = () => import('./run-commands.ts')

/** `stock add` and `stock list`. */
export const registerStock = (program: Command, cli: Cli): void => {
  const stock = program.command('stock')

  stock
    .command('add')
    .description('put addresses in stock; each is in stock once, across all products')
    .option('--product <id>', 'a product of dedicated IPs, for addresses that do not say it')
    .option('--country <alpha3>', 'where they are, e.g. USA, for addresses that do not say it')
    .option(
      '--file <path>',
      'one address a line, or JSON, one object a line or an array of them: {ip, product, country, city, asn, asnOrg, carrierId, service, endpoint: {protocol, host, port, username, password, udp}}',
    )
    .option('--addresses <list>', 'addresses with commas between')
    .option('--city <name>', 'for addresses that do not say it')
    .option('--asn <n>', 'for addresses that do not say it', wholeNumber(1, 4_294_967_295))
    .option('--asn-org <name>', 'for addresses that do not say it')
    .option('--carrier <id>', 'mobile: for addresses that do not say it')
    .option('--service <kind>', 'mobile: dedicated or shared, for addresses that do not say it')
    .addHelpText(
      'after',
      `
An address with an endpoint is a supplier's: its renters reach it at the gateway by their username, and its traffic
goes out through that proxy. Named again with another endpoint or login it changes to it, also while it is rented.

Example, a line of a file:
  {"product": "isp-static", "country": "USA", "ip": "203.0.113.7", "endpoint": {"protocol": "socks5", "host": "gw.acme.example", "port": 1080, "username": "u", "password": "p"}}`,
    )
    .action(cli.action(async () => (await runs()).add))

  stock
    .command('list')
    .description('count what is in stock, as the log has it now')
    .option('--product <id>', 'only this product')
    .option('--country <alpha3>', 'only this country')
    .action(cli.action(async () => (await runs()).list))
}

export const commands = [registerStock] as const
