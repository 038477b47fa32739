import type { Command } from 'commander'
import { type Problem, problemText } from '../../domain/catalog/catalog-rules.ts'
import type { Product } from '../../domain/catalog/product.ts'
import { pluralize } from '../../kernel/formats.ts'
import { type Cli, type CliContext, wholeNumber } from '../../platform/cli/cli-context.ts'
import { readText } from '../../platform/cli/options.ts'
import { CliMisuse, type CliOutput, CliRefusal, table } from '../../platform/cli/output.ts'
import { createCatalogService } from '../catalog/index.ts'
import { addAddresses, type StockingReport } from './add-stock.ts'
import { type ParsedStock, parseStocking } from './parse-stock.ts'
import { countStock, type PoolCount } from './stock-counts.ts'
import { createStockLogins } from './stock-logins.ts'

type AddOptions = {
  readonly product?: string
  readonly country?: string
  readonly file?: string
  readonly addresses?: string
  readonly city?: string
  readonly asn?: number
  readonly asnOrg?: string
  readonly carrier?: string
  readonly service?: string
}

const productOf = async (context: CliContext, id: string): Promise<Product> => {
  const catalog = await createCatalogService(context.runner).read(context)
  const product = catalog.resolve(id)
  if (product === undefined)
    throw new CliMisuse(`no product has the id ${id}; import a catalogue first`, {}, 'unknown_product')
  return product
}

const textOf = async ({ file, addresses }: AddOptions): Promise<string> => {
  if ((file === undefined) === (addresses === undefined))
    throw new CliMisuse('give either --file or --addresses', {}, 'invalid_addresses')
  return file === undefined ? (addresses ?? '') : readText(file, 'invalid_file')
}

const refusal = (problems: readonly Problem[]): CliRefusal =>
  new CliMisuse(
    `nothing was stocked:\n${problems.map((problem) => `  ${problemText(problem)}`).join('\n')}`,
    { problems },
    'invalid_addresses',
  )

const serviceOf = (service: string | undefined): 'dedicated' | 'shared' | null => {
  if (service === undefined || service === 'dedicated' || service === 'shared') return service ?? null
  throw new CliMisuse(`--service ${service} is not dedicated or shared`, {}, 'invalid_addresses')
}

type Added = Pick<ParsedStock, 'productId' | 'country'> & { readonly report: StockingReport }

/** What was added and changed; refused with exit code 1 where an address is in another stock. */
const added = (stocks: readonly Added[]): CliOutput => {
  const reports = stocks.map(({ report }) => report)
  const elsewhere = reports.flatMap((report) => report.elsewhere)
  const [first] = stocks
  const one = stocks.length === 1 ? first : undefined
  const json = {
    productId: one?.productId ?? null,
    country: one?.country ?? null,
    added: reports.reduce((sum, report) => sum + report.added.length, 0),
    changed: reports.flatMap((report) => report.changed),
    alreadyStocked: reports.flatMap((report) => report.alreadyStocked),
    elsewhere,
  }
  const lines = [
    ...stocks.map(
      ({ productId, country, report }) =>
        `added ${pluralize(report.added.length, 'address', 'addresses')} to ${productId} in ${country}`,
    ),
    ...json.changed.map((ip) => `${ip} is reached by another endpoint now`),
    ...json.alreadyStocked.map((ip) => `${ip} was in this stock already`),
    ...elsewhere.map((at) => `${at.ip} is in stock of ${at.productId} in ${at.country}: not added`),
  ]
  if (elsewhere.length > 0) throw new CliRefusal('duplicate_addresses', lines.join('\n'), json)
  return { json, text: lines.join('\n') }
}

const number = (title: string, value: (row: PoolCount) => number) => ({
  title,
  value,
  align: 'right' as const,
})

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
    .action(
      cli.action(async (context, options: AddOptions) => {
        if (options.product !== undefined) await productOf(context, options.product)
        const catalog = await createCatalogService(context.runner).read(context)
        const parsed = parseStocking((id) => catalog.resolve(id), {
          product: options.product ?? null,
          country: options.country ?? null,
          text: await textOf(options),
          defaults: {
            city: options.city ?? null,
            asn: options.asn ?? null,
            asnOrg: options.asnOrg ?? null,
            carrierId: options.carrier ?? null,
            service: serviceOf(options.service),
          },
        })
        if (!parsed.ok) throw refusal(parsed.problems)
        const logins = createStockLogins({ pool: context.pool, master: context.keys.master })
        const stocks = []
        for (const stock of parsed.stocks) {
          const { report } = await addAddresses(context.runner, await logins.store(stock), context)
          await logins.drop(report.formerLogins)
          stocks.push({ ...stock, report })
        }
        return added(stocks)
      }),
    )

  stock
    .command('list')
    .description('count what is in stock, as the log has it now')
    .option('--product <id>', 'only this product')
    .option('--country <alpha3>', 'only this country')
    .action(
      cli.action(async (context, options: { product?: string; country?: string }) => {
        const catalog = await createCatalogService(context.runner).read(context)
        const only = options.product === undefined ? undefined : await productOf(context, options.product)
        const pools = await countStock(
          context.runner,
          catalog,
          { productId: only?.id, country: options.country?.toUpperCase() },
          context,
        )
        return {
          json: { stock: pools },
          text: table(
            pools,
            [
              { title: 'PRODUCT', value: (row) => row.productId },
              { title: 'COUNTRY', value: (row) => row.country },
              { title: 'CARRIER', value: (row) => row.carrierId ?? '-' },
              { title: 'SERVICE', value: (row) => row.service ?? '-' },
              number('TOTAL', (row) => row.total),
              number('AVAILABLE', (row) => row.available),
              number('RENTED', (row) => row.rented),
              number('RESTING', (row) => row.resting),
            ],
            'no addresses',
          ),
        }
      }),
    )
}

export const commands = [registerStock] as const
