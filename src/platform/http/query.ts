import { z } from 'zod'
import { isCountry } from '../../terms/countries.ts'

/**
 * A whole number in a query string, written in digits: `quantity: integerQuery({ min: 1 }).optional()`.
 * Text that is no number, a fraction, or a value outside the bounds fails.
 */
export const integerQuery = (bounds: { min?: number; max?: number; description: string }) =>
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
      },
    })

/** One of some words in a query string. */
export const wordQuery = <const Word extends string>(words: readonly Word[], description: string) =>
  z.enum(words).meta({ description })

const instantForms =
  'a date such as 2026-11-21 (its midnight in UTC) or a time with its offset such as 2026-11-21T02:30:00Z'

/** An ISO 8601 instant or date in a query string, as milliseconds since the epoch; a date is its midnight in UTC. */
export const instantQuery = (description: string) =>
  z
    .union([z.iso.datetime({ offset: true }), z.iso.date()])
    .transform((text) => Date.parse(text))
    .meta({
      description: `${description} It is ${instantForms}.`,
      words: instantForms,
      override: {
        anyOf: [
          { type: 'string', format: 'date' },
          { type: 'string', format: 'date-time' },
        ],
      },
    })

/** A day in a query string, as it is written: `2026-11-21`. */
export const dayQuery = (description: string) =>
  z.iso.date().meta({
    description: `${description} It is a date such as 2026-11-21, in UTC.`,
    words: 'a date such as 2026-11-21',
  })

const latestMs = Date.parse('9999-12-30T00:00:00Z')

/**
 * An instant as it may be asked of Postgres, which knows no year 0 nor 10,000: the nearest one from 1970 to 9999. Nothing
 * happened before or ends after those.
 */
export const inRange = (ms: number): number => Math.min(Math.max(ms, 0), latestMs)

const countryForm = 'an alpha-3 country code such as USA'

/** An ISO 3166-1 alpha-3 country code in any case; whether anything is sold there is not looked at. */
export const countryQuery = (description: string) =>
  z
    .string()
    .regex(/^[A-Za-z]{3}$/)
    .refine((code) => isCountry(code.toUpperCase()), `must be ${countryForm}`)
    .meta({ description, words: countryForm })
