import { z } from 'zod'
import type { FoundPlan } from '../../../projections/plans.ts'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import type { Generate } from '../../domain/catalog/product.ts'
import {
  anyTargeting,
  isLocation,
  maxAsn,
  maxExcluded,
  slugOf,
  systems,
  type Targeting,
  targetingProblem,
  writeTargeting,
} from '../../domain/exits/line.ts'
import type { Family } from '../../domain/shared/order-terms.ts'
import { alpha2Of } from '../../kernel/countries.ts'
import type { ErrorCode } from '../../platform/http/errors.ts'
import { refuse } from '../../platform/http/errors.ts'
import { namedEnum } from '../../platform/http/named-enum.ts'
import { countryCode } from '../../platform/http/query.ts'
import type { ExitHealth, ExitIndex } from '../exits/index.ts'

const locationField = (label: string, path: string) =>
  z
    .string()
    .min(1)
    .max(80)
    .optional()
    .meta({ description: `The code of a ${label}, from \`GET /api/v1/geo/${path}\`.` })
const excluded = <Entry extends z.ZodType>(entry: Entry, label: string) =>
  z
    .array(entry)
    .max(maxExcluded)
    .optional()
    .meta({ description: `${label} to exclude, at most 20. Their exits are not used.` })
const asnValue = z.int().min(1).max(maxAsn)

/** The targeting fields of a request. */
export const targetingFields = {
  country: countryCode(
    'An ISO 3166-1 country code, alpha-2 or alpha-3, in upper or lower case. `GET /api/v1/geo/countries` lists the countries.',
  ).optional(),
  state: locationField('state', 'states'),
  city: locationField('city', 'cities'),
  isp: locationField('provider', 'isps'),
  asn: asnValue.optional().meta({ description: 'An AS number as an integer.' }),
  os: namedEnum('DeviceSystem', systems)
    .optional()
    .meta({ description: 'The operating system of the exit device.' }),
  strict: z.boolean().optional().meta({
    description:
      'Default true: without a matching exit, connections fail. False: without a matching exit, any exit of the country is used.',
  }),
  udp: z
    .boolean()
    .optional()
    .meta({ description: 'True: only exits that forward UDP. For SOCKS5 lines only.' }),
  excludeCountries: excluded(countryCode('An ISO 3166-1 country code, alpha-2 or alpha-3.'), 'Countries'),
  excludeStates: excluded(z.string(), 'States'),
  excludeCities: excluded(z.string(), 'Cities'),
  excludeAsn: excluded(asnValue, 'Networks'),
}
export type TargetingInput = z.output<z.ZodObject<typeof targetingFields>>

/** The refusal code of each field. */
export const targetingCodes = {
  country: 'invalid_targeting',
  state: 'invalid_targeting',
  city: 'invalid_targeting',
  isp: 'invalid_targeting',
  asn: 'invalid_asn',
  os: 'invalid_os',
  strict: 'invalid_strict',
  udp: 'invalid_udp',
  excludeCountries: 'invalid_exclude',
  excludeStates: 'invalid_exclude',
  excludeCities: 'invalid_exclude',
  excludeAsn: 'invalid_exclude',
} as const satisfies Readonly<Record<keyof TargetingInput, ErrorCode>>

/** The entry of a product's `generate.targeting` that a field requires. */
const abilityOf = (field: string): string => (field.startsWith('exclude') ? 'exclude' : field)

/** Whether a value is the default. The product need not support the field then. */
const isDefault = (field: string, value: unknown): boolean =>
  value === undefined ||
  (field === 'strict' && value === true) ||
  (field === 'udp' && value === false) ||
  (Array.isArray(value) && value.length === 0)

const countryOf = (text: string, field: 'country' | 'excludeCountries'): string => {
  const alpha2 = alpha2Of(text)
  if (alpha2 !== null) return alpha2
  const entry = field === 'country' ? 'country must be' : 'excludeCountries holds an entry that is not'
  throw refuse(targetingCodes[field], `${entry} a country code of ISO 3166 such as us or USA`)
}

/** A place by its code. A name such as `Los Angeles` is converted to the code. */
const locationCode = (text: string, field: keyof TargetingInput): string => {
  const code = slugOf(text)
  if (isLocation(code)) return code
  throw refuse(targetingCodes[field], `${field} must be a code of the geo lists such as los_angeles`)
}

const fieldOf: Readonly<Record<string, keyof TargetingInput>> = {
  'not.country': 'excludeCountries',
  'not.state': 'excludeStates',
  'not.city': 'excludeCities',
  'not.asn': 'excludeAsn',
}

/**
 * The targeting of a request, by the same rules as for usernames.
 * @param offeredFields the product's `generate.targeting`
 * @throws ApiError `invalid_targeting`, `invalid_exclude`
 */
export const targetingOf = (input: TargetingInput, offeredFields: readonly string[]): Targeting => {
  for (const [field, value] of Object.entries(input))
    if (!isDefault(field, value) && !offeredFields.includes(abilityOf(field)))
      throw refuse(
        'invalid_targeting',
        `${field} is not for this plan: its product takes ${offeredFields.join(', ') || 'no targeting'}`,
      )
  const { country, state, city, isp, asn, os, strict = true, udp = false } = input
  const optionalCode = (text: string | undefined, field: 'state' | 'city' | 'isp') =>
    text === undefined ? null : locationCode(text, field)
  const locationCodes = (list: readonly string[] | undefined, field: 'excludeStates' | 'excludeCities') => [
    ...new Set((list ?? []).map((text) => locationCode(text, field))),
  ]
  const targeting: Targeting = {
    country: country === undefined ? null : countryOf(country, 'country'),
    state: optionalCode(state, 'state'),
    city: optionalCode(city, 'city'),
    isp: optionalCode(isp, 'isp'),
    asn: asn ?? null,
    os: os ?? null,
    strict,
    udp,
    not: {
      countries: [
        ...new Set((input.excludeCountries ?? []).map((text) => countryOf(text, 'excludeCountries'))),
      ],
      states: locationCodes(input.excludeStates, 'excludeStates'),
      cities: locationCodes(input.excludeCities, 'excludeCities'),
      asns: [...new Set(input.excludeAsn ?? [])],
    },
  }
  const problem = targetingProblem(targeting)
  if (problem === null) return targeting
  const field = fieldOf[problem.token.split('-', 1)[0] ?? '']
  throw refuse(field === undefined ? 'invalid_targeting' : targetingCodes[field], problem.detail)
}

/** The input for this targeting, without default values. */
export const toTargetingInput = ({
  country,
  state,
  city,
  isp,
  asn,
  os,
  strict,
  udp,
  not,
}: Targeting): TargetingInput => {
  const { countries, states, cities, asns } = not
  const list = <Value>(values: readonly Value[]) => (values.length === 0 ? undefined : [...values])
  const inputFields = {
    country,
    state,
    city,
    isp,
    asn,
    os,
    strict: strict ? undefined : false,
    udp: udp ? true : undefined,
    excludeCountries: list(countries),
    excludeStates: list(states),
    excludeCities: list(cities),
    excludeAsn: list(asns),
  }
  return Object.fromEntries(
    Object.entries(inputFields).filter(([, value]) => value !== undefined && value !== null),
  )
}

const hasNoTargeting = (targeting: Targeting): boolean =>
  writeTargeting({ ...targeting, strict: true }) === writeTargeting(anyTargeting)

/** Targeting that the lines of a plan may use, and its current availability. */
export const createExitAvailability = (dependencies: {
  readonly catalog: { current(): Catalog }
  readonly exits: {
    readonly index: () => ExitIndex
    readonly health: Pick<ExitHealth, 'isAlive'>
    /** Resolves when the exits in memory are recent. */
    readonly recent: () => Promise<void>
  }
}) => {
  const { catalog, exits } = dependencies

  const offeredTargetingOf = (
    plan: Pick<FoundPlan, 'productId'>,
  ): { readonly generate: Generate; readonly family: Family | null } => {
    const product = catalog.current().resolve(plan.productId)
    return product && 'generate' in product
      ? { generate: product.generate, family: product.family }
      : { generate: { maxCount: 0, targeting: [] }, family: null }
  }

  /** Refuses targeting that no line can use: a misspelt place, or a place without an exit now. */
  const refuseUnavailable = async (targeting: Targeting, family: Family | null): Promise<void> => {
    await exits.recent()
    const index = exits.index()
    const unknown = index.unknownPlace(targeting)
    if (unknown) throw refuse('invalid_targeting', unknown.detail)
    if (hasNoTargeting(targeting)) return
    const isAvailable = (requested: Targeting): boolean =>
      index
        .matching(requested, { udp: requested.udp, family })
        .some(({ exitId }) => exits.health.isAlive(exitId))
    const { country, strict, udp } = targeting
    if (isAvailable(targeting)) return
    const countryTargeting = { ...anyTargeting, country }
    if (country !== null && !isAvailable(countryTargeting))
      throw refuse('invalid_targeting', 'no exit serves this country now: see GET /api/v1/geo/countries')
    if (udp && !isAvailable({ ...countryTargeting, udp }))
      throw refuse('invalid_udp', 'udp: no matching exit relays UDP now')
    if (strict || country === null)
      throw refuse(
        'invalid_targeting',
        'no exit matches this targeting now: widen it, or send strict false to fall back to the country',
      )
  }

  return { offeredTargetingOf, refuseUnavailable }
}
