import type { TargetingInput } from '../../gateway/lines/targeting-input.ts'
import type { OwnPlan } from '../../market/plans/own-plan.ts'
import { type Html, html } from '../../platform/pages/html.ts'
import { alpha2Of } from '../../terms/countries.ts'
import { type Choice, type Problems, selectOf } from '../frame/form.ts'
import type { PlanPagesDeps } from './deps.ts'
import type { PlanFinder } from './own.ts'

type Text = (name: string) => string
type Named = { readonly code: string; readonly name: string }

const withAny = (any: string, places: readonly Named[]): readonly Choice[] => [
  { value: '', label: any },
  ...places.map(({ code, name }) => ({ value: code, label: name })),
]

/** The chosen one of a list, or nothing. */
const chosenOf = (places: readonly Named[], text: string): string =>
  places.some(({ code }) => code === text) ? text : ''

/** What was chosen of a place, as line generation takes it. */
export const placeIn = (text: Text): TargetingInput => {
  const asn = text('asn')
  return {
    ...(text('country') !== '' && { country: text('country') }),
    ...(text('state') !== '' && { state: text('state') }),
    ...(text('city') !== '' && { city: text('city') }),
    ...(text('isp') !== '' && { isp: text('isp') }),
    ...(/^\d{1,10}$/.test(asn) && { asn: Number(asn) }),
  }
}

/**
 * Fields that choose where lines go out, as far as the product sells it and exits are there now: a country first, then what is
 * in it. They stand in a form with `data-asks`, which asks for the lists of another country.
 */
export const placePickers = async (
  deps: PlanPagesDeps,
  { productOf }: PlanFinder,
  plan: OwnPlan,
  text: Text,
  problems: Problems,
): Promise<Html> => {
  await deps.exitsRecent()
  const product = productOf(plan)
  const sold = new Set<string>(product && 'generate' in product ? product.generate.targeting : [])
  if (!sold.has('country')) return html``
  const all = deps.places(product?.family ?? null)
  const country = alpha2Of(text('country')) ?? ''
  const inside = all.get(country)
  const countries = [...all.values()]
    .map((each) => ({ code: each.country.alpha2, name: each.country.name }))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
  const state = chosenOf(inside?.states ?? [], text('state'))
  const cities = (inside?.cities ?? []).filter((city) => state === '' || city.state === state)
  const networks = (inside?.asns ?? []).map(({ asn, name }) => ({
    code: String(asn),
    name: name === `AS${asn}` ? name : `AS${asn} ${name}`,
  }))
  const pick = (name: string, label: string, any: string, places: readonly Named[]): Html | null =>
    sold.has(name) && places.length > 0
      ? selectOf(
          { name, label, value: chosenOf(places, text(name)), choices: withAny(any, places) },
          problems,
        )
      : null
  return html`${selectOf(
    {
      name: 'country',
      label: 'Country',
      hint: 'Where lines go out: the countries that have exits now.',
      value: inside === undefined ? '' : country,
      choices: withAny('anywhere', countries),
    },
    problems,
  )}
<div id="live-places" class="group" data-live>${pick('state', 'Region', 'any', inside?.states ?? [])}${pick('city', 'City', 'any', cities)}${pick('isp', 'Provider', 'any', inside?.isps ?? [])}${pick('asn', 'Network', 'any', networks)}</div>`
}
