import codes from 'i18n-iso-countries/codes.json' with { type: 'json' }

/** A country as the API names it: ISO 3166-1 alpha-3, upper case, and its English name. */
export type Country = { readonly alpha3: string; readonly name: string }

const english = new Intl.DisplayNames(['en'], { type: 'region' })

const nameByAlpha3: ReadonlyMap<string, string> = new Map(
  codes.map(([alpha2 = '', alpha3 = '']) => [alpha3, english.of(alpha2) ?? alpha3]),
)

/** Whether this is an ISO 3166-1 alpha-3 code in upper case. */
export const isCountry = (alpha3: string): boolean => nameByAlpha3.has(alpha3)

/** The country of an alpha-3 code; a code without a name is its own name. */
export const countryOf = (alpha3: string): Country => ({ alpha3, name: nameByAlpha3.get(alpha3) ?? alpha3 })
