import { type Problem, problemText } from '../../domain/catalog/catalog-rules.ts'
import type { Product } from '../../domain/catalog/product.ts'
import { pluralize } from '../../kernel/formats.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import { type InputOf, readText } from '../../platform/cli/input.ts'
import { CliMisuse, type CliOutput, CliRefusal } from '../../platform/cli/output.ts'
import { createCatalogService } from '../catalog/index.ts'
import { addAddresses, type StockingReport } from './add-stock.ts'
import type { addInput } from './commands.ts'
import { type ParsedStock, parseStocking } from './parse-stock.ts'
import { countStock } from './stock-counts.ts'
import { createStockLogins } from './stock-logins.ts'

type AddInput = InputOf<typeof addInput>

const productOf = async (context: CliContext, id: string): Promise<Product> => {
  const catalog = await createCatalogService(context.runner).read(context)
  const product = catalog.resolve(id)
  if (product === undefined)
    throw new CliMisuse(`no product has the id ${id}; import a catalogue first`, {}, 'unknown_product')
  return product
}

const textOf = async ({ file, addresses }: AddInput): Promise<string> => {
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

/** The added and changed addresses. @throws CliRefusal (exit code 1) if an address is in another stock */
const added = (stocks: readonly Added[]): CliOutput => {
  const reports = stocks.map(({ report }) => report)
  const elsewhere = reports.flatMap((report) => report.elsewhere)
  const [first] = stocks
  const onlyStock = stocks.length === 1 ? first : undefined
  const json = {
    productId: onlyStock?.productId ?? null,
    country: onlyStock?.country ?? null,
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

export const add = async (context: CliContext, options: AddInput) => {
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
}

export const list = async (
  context: CliContext,
  { product, country }: { readonly product?: string; readonly country?: string },
) => {
  const catalog = await createCatalogService(context.runner).read(context)
  const productId = product === undefined ? undefined : (await productOf(context, product)).id
  const filter = { productId, country: country?.toUpperCase() }
  const stock = await countStock(context.runner, catalog, filter, context)
  return { json: { stock }, rows: stock }
}
