import { z } from 'zod'

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

/** An ISO 8601 instant or date in a query string, as milliseconds since the epoch; a date is its midnight in UTC. */
export const instantQuery = (description: string) =>
  z
    .union([z.iso.datetime({ offset: true }), z.iso.date()])
    .transform((text) => Date.parse(text))
    .meta({ description, override: { type: 'string', format: 'date-time' } })
