/** One value of the catalogue that an import changes; null: it is not there. */
export type CatalogChange = {
  readonly path: string
  readonly before: string | null
  readonly after: string | null
}

const isPlain = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const textOf = (value: unknown): string | null => (value === undefined ? null : JSON.stringify(value))

function* changesIn(path: string, before: unknown, after: unknown): Generator<CatalogChange> {
  if (isPlain(before) && isPlain(after)) {
    for (const name of new Set([...Object.keys(before), ...Object.keys(after)]))
      yield* changesIn(path === '' ? name : `${path}.${name}`, before[name], after[name])
    return
  }
  if (Array.isArray(before) && Array.isArray(after)) {
    for (let at = 0; at < Math.max(before.length, after.length); at += 1)
      yield* changesIn(`${path}[${at}]`, before[at], after[at])
    return
  }
  if (textOf(before) !== textOf(after)) yield { path, before: textOf(before), after: textOf(after) }
}

/**
 * Every value in which two catalogues differ, by the product's id and the path in it. A product that comes or goes is one
 * change of its whole.
 */
export const catalogChanges = (
  before: readonly { readonly id: string }[],
  after: readonly { readonly id: string }[],
): readonly CatalogChange[] => {
  const was = new Map(before.map((product) => [product.id, product]))
  const becomes = new Map(after.map((product) => [product.id, product]))
  return [...new Set([...was.keys(), ...becomes.keys()])].sort().flatMap((id) =>
    [...changesIn('', was.get(id), becomes.get(id))].map((change) => ({
      ...change,
      path: change.path === '' ? id : `${id}: ${change.path}`,
    })),
  )
}
