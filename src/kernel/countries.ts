import codes from 'i18n-iso-countries/codes.json' with { type: 'json' }

/** A country as the API names it: ISO 3166-1 alpha-3, upper case, and its English name. */
export type Country = { readonly alpha3: string; readonly name: string }

const english = new Intl.DisplayNames(['en'], { type: 'region' })

const nameByAlpha3: ReadonlyMap<string, string> = new Map(
  codes.map(([alpha2 = '', alpha3 = '']) => [alpha3, english.of(alpha2) ?? alpha3]),
)

/** Whether this is an ISO 3166-1 alpha-3 code in upper case. */
export const isCountry = (alpha3: string): boolean => nameByAlpha3.has(alpha3)

/** The country of an alpha-3 code. The name of an unknown code is the code itself. */
export const countryOf = (alpha3: string): Country => ({ alpha3, name: nameByAlpha3.get(alpha3) ?? alpha3 })

const alpha3ByAlpha2: ReadonlyMap<string, string> = new Map(
  codes.map(([alpha2 = '', alpha3 = '']) => [alpha2.toLowerCase(), alpha3]),
)
const alpha2ByAlpha3: ReadonlyMap<string, string> = new Map(
  [...alpha3ByAlpha2].map(([alpha2, alpha3]) => [alpha3, alpha2]),
)

/** Whether this is an ISO 3166-1 alpha-2 code in lower case, as in the usernames of lines. */
export const isAlpha2 = (alpha2: string): boolean => alpha3ByAlpha2.has(alpha2)

/** The country of an alpha-2 code in lower case. */
export const countryOfAlpha2 = (alpha2: string): Country => countryOf(alpha3ByAlpha2.get(alpha2) ?? alpha2)

/** The alpha-2 code, lower case, for an alpha-2 or alpha-3 code in any case; null for an unknown code. */
export const alpha2Of = (code: string): string | null => {
  const alpha2 = code.length === 3 ? alpha2ByAlpha3.get(code.toUpperCase()) : code.toLowerCase()
  return alpha2 !== undefined && isAlpha2(alpha2) ? alpha2 : null
}
