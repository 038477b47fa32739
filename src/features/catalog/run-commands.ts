import { type Problem, problemText } from '../../domain/catalog/catalog-rules.ts'
import type { ProductState } from '../../domain/catalog/product.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import { type InputOf, readText } from '../../platform/cli/input.ts'
import { CliMisuse, type CliRefusal } from '../../platform/cli/output.ts'
import type { Done } from '../../platform/commands/command.ts'
import type { setStateInput } from './commands.ts'
import { type CatalogResult, createCatalogService, type Ordered, orderedProducts } from './import-catalog.ts'

const textOf = (file: string): Promise<string> => readText(file, 'invalid_file')

const refusal = (problems: readonly Problem[]): CliRefusal =>
  new CliMisuse(
    `nothing was changed, ${problems.length === 1 ? 'one problem' : `${problems.length} problems`}:\n${problems
      .map((problem) => `  ${problemText(problem)}`)
      .join('\n')}`,
    { problems },
    'invalid_catalog',
  )

const accepted = <Value>(result: CatalogResult<Value>): Done<Value> => {
  if (result.outcome === 'refused') throw refusal(result.refusal)
  return result
}

const orderedIn =
  (context: CliContext): Ordered =>
  (productIds) =>
    orderedProducts(context, productIds)

type FileInput = { readonly file: string }

export const importFile = async (context: CliContext, { file }: FileInput) => {
  const service = createCatalogService(context.runner)
  const { changed, digest, products } = accepted(
    await service.import(await textOf(file), context, orderedIn(context)),
  )
  return {
    json: { status: changed ? 'imported' : 'unchanged', digest, products },
    text: changed
      ? `imported ${products} products, digest ${digest}`
      : `nothing to do: this catalogue was imported last, digest ${digest}`,
  }
}

export const checkFile = async (context: CliContext, { file }: FileInput) => {
  const service = createCatalogService(context.runner)
  const { current, digest, products } = accepted(
    await service.check(await textOf(file), context, orderedIn(context)),
  )
  const effect = current ? 'it is the current catalogue' : 'not imported yet'
  return {
    json: { status: 'valid', digest, products, imported: current },
    text: `valid: ${products} products, digest ${digest}, ${effect}`,
  }
}

export const setState = async (
  { runner, actor, correlationId }: CliContext,
  { product: productId, state, successor }: InputOf<typeof setStateInput>,
) => {
  if (!['active', 'parked', 'retired'].includes(state))
    throw new CliMisuse(`${state} is no state: active, parked or retired`, {}, 'invalid_state')
  const { changed, product } = accepted(
    await createCatalogService(runner).setState(
      { productId, state: state as ProductState, successorId: successor ?? null },
      { actor, correlationId },
    ),
  )
  const { id, successorId, since } = product
  return {
    json: { status: changed ? 'changed' : 'unchanged', productId: id, state, successorId, since },
    text: changed ? `${id} is ${state} now` : `nothing to do: ${id} is ${state} already`,
  }
}
