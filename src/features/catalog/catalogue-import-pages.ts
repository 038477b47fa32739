import type pg from 'pg'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import { parseCatalog } from '../../domain/catalog/catalog-file.ts'
import { type Problem, problemText } from '../../domain/catalog/catalog-rules.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import {
  type FormInput,
  hiddenOf,
  keyField,
  type Problems,
  problemsOf,
  textAreaOf,
} from '../../platform/ui/form.ts'
import type { View } from '../../platform/ui/frame.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import {
  type ConsolePage,
  goTo,
  operatorPage,
  type PersonVisit,
  refused,
  viewWithStatus,
} from '../../platform/ui/page.ts'
import { tableOf } from '../../platform/ui/table.ts'
import { countText, softText } from '../../platform/ui/text.ts'
import { createCatalogService, orderedProducts } from './import-catalog.ts'

/** A value of the catalogue that an import changes; null: absent. */
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
 * Every value in which two catalogues differ, by the product's id and the path in it. An added or removed product is
 * one change.
 */
export const catalogChanges = (
  before: readonly { readonly id: string }[],
  after: readonly { readonly id: string }[],
): readonly CatalogChange[] => {
  const beforeById = new Map(before.map((product) => [product.id, product]))
  const afterById = new Map(after.map((product) => [product.id, product]))
  return [...new Set([...beforeById.keys(), ...afterById.keys()])].sort().flatMap((id) =>
    [...changesIn('', beforeById.get(id), afterById.get(id))].map((change) => ({
      ...change,
      path: change.path === '' ? id : `${id}: ${change.path}`,
    })),
  )
}

const path = '/console/operator/catalogue'
/** The largest number of changes and problems on one page. The import still applies the whole file. */
const maxShown = 300

const fileProblems = (parseProblems: readonly Problem[]): Problems => ({
  file: `${countText(parseProblems.length, 'problem')}: ${parseProblems.slice(0, 20).map(problemText).join('; ')}${parseProblems.length > 20 ? ' …' : ''}`,
})

/** The changes of an import, and the button that applies exactly these. */
type Preview = {
  readonly digest: string
  /** The digest of the catalogue that the import replaces. */
  readonly currentDigest: string
  readonly changes: readonly CatalogChange[]
}

const valueText = (value: string | null): Html =>
  value === null ? softText('nothing') : html`<code>${value.slice(0, 200)}</code>`

const previewOf = ({ digest, currentDigest, changes }: Preview): Html => html`<section aria-label="Preview">
<h2>${countText(changes.length, 'change')}</h2>
${tableOf({
  caption: 'Changes of the import',
  rows: changes.slice(0, maxShown),
  empty: 'This is the current catalogue.',
  columns: [
    { title: 'Value', head: true, cell: (change) => html`<code>${change.path}</code>` },
    { title: 'Now', cell: ({ before }) => valueText(before) },
    { title: 'After the import', cell: ({ after }) => valueText(after) },
  ],
})}
${changes.length > maxShown ? html`<p class="soft">The first ${maxShown} are shown.</p>` : nothing}
<p class="soft">Digest <code>${digest}</code>. Orders in progress keep their quoted price.</p>
</section>
${hiddenOf('digest', digest)}${hiddenOf('standing', currentDigest)}`

/** Imports the catalogue from a file, after a preview of the changes. */
export const operatorCataloguePages = ({
  pool,
  log,
  runner,
  catalog,
}: {
  readonly pool: pg.Pool
  readonly log: EventLog
  readonly runner: CommandRunner
  readonly catalog: { current(): Pick<Catalog, 'digest' | 'products'> }
}): readonly ConsolePage[] => {
  const service = createCatalogService(runner)
  const ordered = (productIds: readonly string[]) => orderedProducts({ pool, log }, productIds)

  const view = ({ form }: PersonVisit, preview: Preview | null): View => {
    const { digest, products } = catalog.current()
    const canImport = preview !== null && preview.changes.length > 0
    return {
      title: 'Catalogue',
      body: html`<p>The catalogue has ${countText(products.length, 'product')}, digest <code>${digest ?? 'none'}</code>. An import replaces all of it, including the states of products.</p>
<form method="post" action="${path}" class="stack" novalidate>
${keyField(form.key)}
${preview === null ? nothing : previewOf(preview)}
${textAreaOf({ name: 'file', label: 'The catalogue file, as JSON', hint: 'Up to about 150 kB here. Use "catalog import" for larger files.' }, form)}
<div class="actions"><button${canImport ? null : { html: ' class="first"' }} name="do" value="preview">Show changes</button>${canImport ? html` <button class="first" name="do" value="import">Import</button>` : null}</div>
</form>`,
      cliEquivalents: ['bin/farebox catalog check FILE', 'bin/farebox catalog import FILE'],
    }
  }

  const importFile = async (visit: PersonVisit, typed: FormInput) => {
    const text = typed.text('file')
    if (text === '') return refused({ file: 'Paste the catalogue file.' })
    const parsed = parseCatalog(text)
    if (!parsed.ok) return refused(fileProblems(parsed.problems))
    const checked = await service.check(text, visit.cause, ordered)
    if (checked.outcome === 'refused') return refused(fileProblems(checked.refusal), 409)
    const now = await service.read(visit.cause)
    const currentDigest = now.digest ?? 'none'
    const preview: Preview = {
      digest: checked.digest,
      currentDigest,
      changes: catalogChanges(
        now.products.map(({ since: _, ...terms }) => terms),
        parsed.file.products,
      ),
    }
    const previewView = view({ ...visit, form: { ...visit.form, typed } }, preview)
    if (typed.text('do') !== 'import') return previewView
    if (typed.text('digest') !== preview.digest || typed.text('standing') !== currentDigest) {
      const problem = 'The file or the catalogue changed after the preview. Check the changes again.'
      const body = html`${problemsOf({ form: problem })}${previewView.body}`
      return viewWithStatus({ ...previewView, body }, 409)
    }
    const imported = await service.import(text, visit.cause, ordered)
    if (imported.outcome === 'refused') return refused(fileProblems(imported.refusal), 409)
    return goTo(
      path,
      imported.changed
        ? `The catalogue is imported: ${countText(imported.products, 'product')}.`
        : 'This catalogue was already imported.',
    )
  }

  return [
    operatorPage({
      path,
      name: 'importCatalogue',
      summary: 'Imports the catalogue from a file, after a preview of the changes',
      confirmed: true,
      show: async (visit) => view(visit, null),
      act: { once: true, run: importFile },
    }),
  ]
}
