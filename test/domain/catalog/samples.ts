import { readFileSync } from 'node:fs'
import { createCatalog } from '../../../src/domain/catalog/catalog.ts'
import { parseCatalog } from '../../../src/domain/catalog/catalog-file.ts'
import { decideImport } from '../../../src/domain/catalog/decide.ts'
import { emptyCatalog, evolveCatalog } from '../../../src/domain/catalog/fold.ts'
import type { CatalogState, Product } from '../../../src/domain/catalog/product.ts'
import { eventsOf } from '../../support/decider.ts'

export const demoText = readFileSync(new URL('../../../src/app/demo/catalog.json', import.meta.url), 'utf8')

/** A file's JSON, to be changed by a test. */
// biome-ignore lint/suspicious/noExplicitAny: tests break it on purpose
export const demoJson = (): any => JSON.parse(demoText)

export const importedAtMs = Date.parse('2026-11-21T02:30:00.000Z')

/** The catalogue after an import of the text over `before`; throws when it is refused. */
export const imported = (text: string, before: CatalogState = emptyCatalog, nowMs = importedAtMs) => {
  const parsed = parseCatalog(text)
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  return eventsOf(decideImport(before, parsed.file, nowMs)).reduce(evolveCatalog, before)
}

export const demoCatalog = createCatalog(imported(demoText))

/** A product of the demo catalogue, by its shape if no id is given. */
export const demoProduct = (id: string): Product => {
  const product = demoCatalog.resolve(id)
  if (!product) throw new Error(`the demo catalogue has no ${id}`)
  return product
}
