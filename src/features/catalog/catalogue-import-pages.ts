import type pg from 'pg'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import { parseCatalog } from '../../domain/catalog/catalog-file.ts'
import { type Problem, problemText } from '../../domain/catalog/catalog-rules.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import {
  emptyFormInput,
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
  type PersonVisit,
  personPage,
  refusedView,
  show,
} from '../../platform/ui/page.ts'
import { tableOf } from '../../platform/ui/table.ts'
import { countText } from '../../platform/ui/text.ts'
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

const problemsIn = (parseProblems: readonly Problem[]): Problems => ({
  file: `${countText(parseProblems.length, 'problem')}: ${parseProblems.slice(0, 20).map(problemText).join('; ')}${parseProblems.length > 20 ? ' …' : ''}`,
})

/** The changes of an import, and the button that applies exactly these. */
type Preview = {
  readonly digest: string
  /** The digest of the catalogue that the import replaces. */
  readonly currentDigest: string
  readonly changes: readonly CatalogChange[]
}

const previewOf = ({ digest, currentDigest, changes }: Preview): Html => html`<section aria-label="Preview">
<h2>${countText(changes.length, 'change')}</h2>
${tableOf({
  caption: 'What the import changes',
  rows: changes.slice(0, maxShown),
  empty: html`<p>This is the catalogue that stands.</p>`,
  columns: [
    { title: 'Where', head: true, cell: (change) => html`<code>${change.path}</code>` },
    {
      title: 'Now',
      cell: ({ before }) =>
        before === null
          ? html`<span class="soft">nothing</span>`
          : html`<code>${before.slice(0, 200)}</code>`,
    },
    {
      title: 'Then',
      cell: ({ after }) =>
        after === null ? html`<span class="soft">nothing</span>` : html`<code>${after.slice(0, 200)}</code>`,
    },
  ],
})}
${changes.length > maxShown ? html`<p class="soft">The first ${maxShown} are shown.</p>` : nothing}
<p class="soft">Digest <code>${digest}</code>. Orders that are under way keep the price that they were quoted.</p>
</section>
${hiddenOf('digest', digest)}${hiddenOf('standing', currentDigest)}`

type ImportServices = {
  readonly pool: pg.Pool
  readonly log: EventLog
  readonly runner: CommandRunner
  readonly catalog: { current(): Pick<Catalog, 'digest' | 'products'> }
}

const view = async (
  catalog: ImportServices['catalog'],
  visit: PersonVisit,
  typed: FormInput,
  { problems = {}, preview = null }: { readonly problems?: Problems; readonly preview?: Preview | null },
): Promise<View> => {
  const { digest, products } = catalog.current()
  const changing = preview !== null && preview.changes.length > 0
  return {
    title: 'Catalogue',
    body: html`<p>${countText(products.length, 'product')} stand, digest <code>${digest ?? 'none'}</code>. A file takes the place of all of it: what it says of the state of a product holds, too.</p>
${problemsOf(problems)}
<form method="post" action="${path}" class="stack" novalidate>
${keyField(visit.formKey)}
${preview === null ? nothing : previewOf(preview)}
${textAreaOf({ name: 'file', label: 'The catalogue file, as JSON', hint: 'Up to about 150 kB here; "catalog import" takes more.' }, typed, problems)}
<div class="acts"><button${changing ? null : { html: ' class="first"' }} name="do" value="preview">Show what it changes</button>${changing ? html` <button class="first" name="do" value="import">Import it</button>` : null}</div>
</form>`,
    same: ['npx farebox catalog check FILE', 'npx farebox catalog import FILE'],
  }
}

const handleForm = async (
  { pool, log, runner, catalog }: ImportServices,
  visit: PersonVisit,
  typed: FormInput,
) => {
  const service = createCatalogService(runner)
  const ordered = (productIds: readonly string[]) => orderedProducts({ pool, log }, productIds)
  const text = typed.text('file')
  const refusedBy = async (problems: Problems, status: 400 | 409 = 400) =>
    refusedView(await view(catalog, visit, typed, { problems }), status)
  if (text === '') return refusedBy({ file: 'Paste the catalogue file.' })
  const parsed = parseCatalog(text)
  if (!parsed.ok) return refusedBy(problemsIn(parsed.problems))
  const checked = await service.check(text, visit.cause, ordered)
  if (checked.outcome === 'refused') return refusedBy(problemsIn(checked.refusal), 409)
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
  if (typed.text('do') !== 'import') return show(await view(catalog, visit, typed, { preview }))
  if (typed.text('digest') !== preview.digest || typed.text('standing') !== currentDigest)
    return refusedView(
      await view(catalog, visit, typed, {
        preview,
        problems: {
          form: 'The file or the catalogue is another one than the preview showed. Look at it again.',
        },
      }),
      409,
    )
  const imported = await service.import(text, visit.cause, ordered)
  if (imported.outcome === 'refused') return refusedBy(problemsIn(imported.refusal), 409)
  return goTo(
    path,
    imported.changed
      ? `The catalogue is imported: ${countText(imported.products, 'product')}.`
      : 'This catalogue was imported before.',
  )
}

/** Imports the catalogue from a file, after a preview of the changes. */
export const operatorCataloguePages = (services: ImportServices): readonly ConsolePage[] => [
  personPage({
    path,
    name: 'importCatalogue',
    summary: 'Imports the catalogue from a file, with what it changes shown before',
    for: ['operator'],
    nav: { label: 'Catalogue import', group: 'Operator' },
    confirmed: true,
    show: async (visit) => show(await view(services.catalog, visit, emptyFormInput, {})),
    act: { once: true, run: (visit, typed) => handleForm(services, visit, typed) },
  }),
]
