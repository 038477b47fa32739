import { parseCatalog } from '../../market/catalog/file.ts'
import { type Problem, problemText } from '../../market/catalog/problem.ts'
import { createCatalogService } from '../../market/catalog/service.ts'
import { orderedProducts } from '../../market/orders/ordered-products.ts'
import { type Html, html, nothing } from '../../platform/pages/html.ts'
import {
  hiddenOf,
  keyField,
  type Problems,
  problemsOf,
  type Typed,
  textAreaOf,
  untyped,
} from '../frame/form.ts'
import type { View } from '../frame/frame.ts'
import { tableOf } from '../frame/table.ts'
import { countText } from '../frame/text.ts'
import { type ConsolePage, goTo, type PersonVisit, personPage, refusedView, show } from '../pages/page.ts'
import { type CatalogChange, catalogChanges } from './catalog-diff.ts'
import type { OperatorDeps } from './deps.ts'

const path = '/console/operator/catalogue'
/** Changes and problems of one page; what an import does is the whole file all the same. */
const mostShown = 300

const problemsIn = (found: readonly Problem[]): Problems => ({
  file: `${countText(found.length, 'problem')}: ${found.slice(0, 20).map(problemText).join('; ')}${found.length > 20 ? ' …' : ''}`,
})

/** What an import would change, and the button that does just that. */
type Preview = {
  readonly digest: string
  /** Of the catalogue that it would take the place of. */
  readonly standing: string
  readonly changes: readonly CatalogChange[]
}

const previewOf = ({ digest, standing, changes }: Preview): Html => html`<section aria-label="Preview">
<h2>${countText(changes.length, 'change')}</h2>
${tableOf({
  caption: 'What the import changes',
  rows: changes.slice(0, mostShown),
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
${changes.length > mostShown ? html`<p class="soft">The first ${mostShown} are shown.</p>` : nothing}
<p class="soft">Digest <code>${digest}</code>. Orders that are under way keep the price that they were quoted.</p>
</section>
${hiddenOf('digest', digest)}${hiddenOf('standing', standing)}`

const view = async (
  deps: OperatorDeps,
  visit: PersonVisit,
  typed: Typed,
  { problems = {}, preview = null }: { readonly problems?: Problems; readonly preview?: Preview | null },
): Promise<View> => {
  const { digest, products } = deps.catalog.current()
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

const act = async (deps: OperatorDeps, visit: PersonVisit, typed: Typed) => {
  const service = createCatalogService(deps.runner)
  const ordered = (productIds: readonly string[]) => orderedProducts(deps, productIds)
  const text = typed.text('file')
  const refusedBy = async (problems: Problems, status: 400 | 409 = 400) =>
    refusedView(await view(deps, visit, typed, { problems }), status)
  if (text === '') return refusedBy({ file: 'Paste the catalogue file.' })
  const parsed = parseCatalog(text)
  if (!parsed.ok) return refusedBy(problemsIn(parsed.problems))
  const checked = await service.check(text, visit.cause, ordered)
  if (checked.outcome === 'refused') return refusedBy(problemsIn(checked.refusal), 409)
  const now = await service.read(visit.cause)
  const standing = now.digest ?? 'none'
  const preview: Preview = {
    digest: checked.digest,
    standing,
    changes: catalogChanges(
      now.products.map(({ since: _, ...terms }) => terms),
      parsed.file.products,
    ),
  }
  if (typed.text('do') !== 'import') return show(await view(deps, visit, typed, { preview }))
  if (typed.text('digest') !== preview.digest || typed.text('standing') !== standing)
    return refusedView(
      await view(deps, visit, typed, {
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

/** The catalogue is taken from a file, after a look at what that changes. */
export const operatorCataloguePages = (deps: OperatorDeps): readonly ConsolePage[] => [
  personPage({
    path,
    name: 'importCatalogue',
    summary: 'Imports the catalogue from a file, with what it changes shown before',
    for: ['operator'],
    nav: { label: 'Catalogue import', group: 'Operator' },
    confirmed: true,
    show: async (visit) => show(await view(deps, visit, untyped, {})),
    act: { once: true, run: (visit, typed) => act(deps, visit, typed) },
  }),
]
