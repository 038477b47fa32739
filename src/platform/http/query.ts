import { z } from 'zod'
import { alpha2Of, isCountry } from '../../kernel/countries.ts'
import { namedEnum } from './named-enum.ts'
import type { FieldCodes } from './route.ts'

/** The default and the maximum size of a page (docs/reference/api.md, "Pagination"). */
const defaultLimit = 50
const maxLimit = 100

const wholeNumber = (text: string): number => (/^\d+$/.test(text) ? Number(text) : Number.NaN)

/**
 * The query fields of a list: `query: z.object({ ...pagingQuery, status: … }), codes: { query: pagingCodes }`.
 * A size above the maximum is capped, not refused (docs/reference/api.md, "Pagination").
 */
export const pagingQuery = {
  limit: z
    .string()
    .transform(wholeNumber)
    .pipe(
      z
        .number()
        .min(1)
        .transform((limit) => Math.min(limit, maxLimit))
        .pipe(z.int()),
    )
    .default(defaultLimit)
    .meta({
      description: `How many entries, at least 1; more than ${maxLimit} is read as ${maxLimit}.`,
      override: { type: 'integer', minimum: 1, default: defaultLimit },
    }),
  offset: z
    .string()
    .transform(wholeNumber)
    .pipe(z.int().min(0))
    .default(0)
    .meta({
      description: 'How many entries to leave out from the newest on.',
      override: { type: 'integer', minimum: 0, default: 0 },
    }),
} as const

export const pagingCodes: FieldCodes = { limit: 'invalid_limit', offset: 'invalid_offset' }

/** The fields of a list's answer: `z.object({ orders: z.array(Order), ...pageShape }).meta({ id: 'OrderList' })`. */
export const pageShape = {
  total: z.int().min(0).meta({ description: 'Entries in all, over every page.' }),
  limit: z.int().min(1).max(maxLimit).meta({ description: 'The page size that was used.' }),
  offset: z.int().min(0).meta({ description: 'The offset that was used.' }),
} as const

/**
 * A whole number in a query string, written in digits: `quantity: integerQuery({ min: 1 }).optional()`.
 * Text that is no number, a fraction, or a value outside the bounds fails. `default` is for the interface description.
 */
export const integerQuery = (bounds: { min?: number; max?: number; default?: number; description: string }) =>
  z
    .string()
    .transform((text) => (/^-?\d+$/.test(text) ? Number(text) : Number.NaN))
    .pipe(
      z
        .int()
        .min(bounds.min ?? Number.MIN_SAFE_INTEGER)
        .max(bounds.max ?? Number.MAX_SAFE_INTEGER),
    )
    .meta({
      description: bounds.description,
      override: {
        type: 'integer',
        ...(bounds.min === undefined ? {} : { minimum: bounds.min }),
        ...(bounds.max === undefined ? {} : { maximum: bounds.max }),
        ...(bounds.default === undefined ? {} : { default: bounds.default }),
      },
    })

/** One of the given words in a query string. `name`: that of the enumeration, if it is used elsewhere. */
export const wordQuery = <const Word extends string>(
  words: readonly Word[],
  description: string,
  name?: string,
) => (name === undefined ? z.enum(words) : namedEnum(name, words)).meta({ description })

const instantForms =
  'a date such as 2026-11-21 (its midnight in UTC) or a time with its offset such as 2026-11-21T02:30:00Z'

const instants = z.union([
  z.iso.datetime({ offset: true }),
  z.iso.datetime({ offset: true, precision: -1 }),
  z.iso.date(),
])
const isInstant = (text: string): boolean => instants.safeParse(text).success

/** An ISO 8601 instant or date in a query string, as milliseconds since the epoch; a date is its midnight in UTC. */
export const instantQuery = (description: string) =>
  z
    .string()
    .refine((text) => isInstant(text), {
      error: ({ input }) =>
        isInstant(String(input).replace(' ', '+'))
          ? `must be ${instantForms}; write the + of its offset as %2B, because a + in a query is a space`
          : `must be ${instantForms}`,
    })
    .transform((text) => Date.parse(text))
    .meta({
      description: `${description} It is ${instantForms}.`,
      words: instantForms,
      override: { type: 'string', pattern: '^[0-9]{4}-[0-9]{2}-[0-9]{2}(T.+)?$' },
    })

/** A day in a query string, as text: `2026-11-21`. */
export const dayQuery = (description: string) =>
  z.iso.date().meta({
    description: `${description} It is a date such as 2026-11-21, in UTC.`,
    words: 'a date such as 2026-11-21',
  })

const latestMs = Date.parse('9999-12-30T00:00:00Z')

/**
 * The nearest instant from 1970 to 9999, for a query to Postgres, which has no year 0 and no year 10,000. In
 * milliseconds since the epoch. Nothing happened before 1970 or ends after 9999.
 */
export const inRange = (ms: number): number => Math.min(Math.max(ms, 0), latestMs)

const countryForm = 'an alpha-3 country code such as USA'

/** An ISO 3166-1 alpha-3 country code in any case. It does not check whether anything is sold there. */
export const countryQuery = (description: string) =>
  z
    .string()
    .regex(/^[A-Za-z]{3}$/)
    .refine((code) => isCountry(code.toUpperCase()), `must be ${countryForm}`)
    .meta({ description, words: countryForm })

const anyCountryForm = 'a country code of ISO 3166 such as us or USA'

/** An ISO 3166-1 country code, alpha-2 or alpha-3, in any case, in a query or a body. */
export const countryCode = (description: string) =>
  z
    .string()
    .regex(/^[A-Za-z]{2,3}$/)
    .refine((code) => alpha2Of(code) !== null, `must be ${anyCountryForm}`)
    .meta({ description, words: anyCountryForm })

/** A position in an answer: opaque text (`positionToken`). */
export const positionField = (description: string) =>
  z.string().meta({ description: `${description} Opaque: send it back as it came.` })
