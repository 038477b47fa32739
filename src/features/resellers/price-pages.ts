import type { Catalog } from '../../domain/catalog/catalog.ts'
import type { OwnPriceChange } from '../../domain/resellers/decide.ts'
import type { Terms } from '../../domain/resellers/fold.ts'
import { choicesOf, fieldOf, formOf, problemsIn, selectOf } from '../../platform/ui/form.ts'
import { type Html, html } from '../../platform/ui/html.ts'
import {
  type AccountVisit,
  type ConsolePage,
  type FormRefusal,
  goTo,
  type PageOutcome,
  refused,
  refusedBy,
  resellerPage,
} from '../../platform/ui/page.ts'
import { productName } from '../catalog/index.ts'
import type { Resellers } from './terms.ts'
import { parseCountries, parseMarkup, parsePeriods, parsePriceTiers } from './terms-input.ts'
import { markupText } from './terms-output.ts'
import { termsRefused } from './terms-routes.ts'

const termsPath = '/console/reseller/terms'
export const markupPath = '/console/reseller/markup'
export const pricePath = '/console/reseller/price'

/** The value of a field, or the problem of its text. */
const parsed = <Value>(parse: (text: string) => Value, text: string): { value?: Value; problem?: string } => {
  try {
    return { value: parse(text) }
  } catch (error) {
    return { problem: (error as Error).message }
  }
}

/** The forms in which a reseller sets its prices within the limits of the service. */
export const pricePages = ({
  resellers,
  catalog,
}: {
  readonly resellers: Pick<Resellers, 'read' | 'setPrices'>
  readonly catalog: { current(): Pick<Catalog, 'products' | 'resolve'> }
}): readonly ConsolePage[] => {
  /** A page with a form, or with the reason why the reseller may not set prices. */
  const formPage = async (
    { account, cause }: AccountVisit,
    title: string,
    bodyOf: (terms: Terms, limits: string) => Html,
  ) => {
    const result = await resellers.read(account.accountId, cause)
    if (result.outcome === 'refused') throw termsRefused(result.refusal)
    const { priceLimits } = result.terms
    const body =
      priceLimits === null
        ? html`<p>Only operators of the service set the prices of your customers. Ask them to set limits for you.</p>`
        : bodyOf(
            result.terms,
            `from ${markupText(priceLimits.fromMillionths)} to ${markupText(priceLimits.toMillionths)}`,
          )
    return { title, body }
  }
  const set = async (
    { account, cause }: AccountVisit,
    change: OwnPriceChange,
  ): Promise<PageOutcome | FormRefusal> => {
    const result = await resellers.setPrices(account.accountId, change, cause)
    if (result.outcome === 'refused') return refusedBy(termsRefused(result.refusal))
    return goTo(termsPath, 'Saved. New orders use the price.')
  }

  return [
    resellerPage({
      path: markupPath,
      name: 'setMarkup',
      summary: 'Sets the markup of a reseller on the list prices',
      show: async (visit) => ({
        ...(await formPage(visit, 'Markup', ({ markupMillionths }, limits) => {
          const field = {
            name: 'markup',
            label: 'Multiple of the list price',
            hint: `1.30 is 30 % above the list price. You may set ${limits}. Empty: the list price.`,
            inputmode: 'decimal',
            maxlength: 10,
            value: markupMillionths === null ? '' : markupText(markupMillionths),
          } as const
          return html`<p>Customers pay this for each product without a price of its own.</p>
${formOf(visit.form, { fields: [fieldOf(field, visit.form)], submit: 'Save', back: termsPath })}`
        })),
        cliEquivalents: [
          `curl -X PATCH $API/reseller/terms -H "X-API-Key: $KEY" --json '{"markup": "1.30"}'`,
        ],
      }),
      act: {
        run: async (visit, typed) => {
          const text = typed.text('markup')
          const { value = null, problem } = text === '' ? {} : parsed(parseMarkup, text)
          return problem === undefined
            ? set(visit, { markupMillionths: value })
            : refused({ markup: problem })
        },
      },
    }),
    resellerPage({
      path: pricePath,
      name: 'setPrice',
      summary: 'Sets the price of a product for the customers of a reseller',
      show: async (visit) => ({
        ...(await formPage(visit, 'Price of a product', (_, limits) => {
          const { form } = visit
          const field = (name: string, label: string, hint: string) =>
            fieldOf({ name, label, hint, maxlength: 200 }, form)
          const choices = catalog
            .current()
            .products.map(({ id }) => ({ value: id, label: productName(catalog, id) }))
          return html`<p>Customers pay this price for one unit. You may set ${limits} × the list price, at every quantity.</p>
${formOf(form, {
  fields: [
    selectOf({ name: 'product', label: 'Product', choices }, form),
    field('countries', 'Countries', 'Codes such as USA,DEU. For dedicated addresses only.'),
    field('periods', 'Rental periods, days', 'Such as 30,90. For dedicated addresses only.'),
    field(
      'price',
      'Price of one unit, USD',
      'Such as 3.50, or by quantity: 1:3.50, 10:3.20. Empty: the markup applies.',
    ),
    choicesOf(
      {
        name: 'allow',
        legend: 'Below your cost',
        choices: [{ value: 'below-cost', label: 'I sell this product below my cost' }],
        chosen: [],
      },
      form,
    ),
  ],
  submit: 'Save',
  back: termsPath,
})}`
        })),
        cliEquivalents: [
          `curl -X PUT $API/reseller/prices -H "X-API-Key: $KEY" --json '{"product_id": "isp-static", "countries": ["USA"], "periods": [30], "unit_price": "3.50"}'`,
        ],
      }),
      act: {
        run: async (visit, typed) => {
          const listOf = <Value>(parse: (text: string) => readonly Value[], name: string) =>
            typed.text(name) === '' ? { value: [] as readonly Value[] } : parsed(parse, typed.text(name))
          const countries = listOf(parseCountries, 'countries')
          const periods = listOf(parsePeriods, 'periods')
          const price = typed.text('price') === '' ? {} : parsed(parsePriceTiers, typed.text('price'))
          const problems = problemsIn({
            countries: countries.problem,
            periods: periods.problem,
            price: price.problem,
          })
          if (problems) return refused(problems)
          return set(visit, {
            retail: {
              productId: typed.text('product'),
              countries: countries.value ?? [],
              periods: periods.value ?? [],
              price:
                price.value === undefined
                  ? null
                  : { tiers: price.value, belowCost: typed.all('allow').includes('below-cost') },
            },
          })
        },
      },
    }),
  ]
}
