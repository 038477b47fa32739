import { z } from 'zod'
import type { FieldCodes } from './route.ts'

/**
 * A page that leaves the size out has this many entries, none has more than the maximum (docs/http-api.md, "Requests").
 */
const defaultLimit = 50
const maxLimit = 100

const wholeNumber = (text: string): number => (/^\d+$/.test(text) ? Number(text) : Number.NaN)

/**
 * The query fields of a list: `query: z.object({ ...pagingQuery, status: … }), codes: { query: pagingCodes }`.
 * A size above the maximum is capped, not refused (docs/http-api.md, "Errors").
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
