import { z } from 'zod'
import { integerQuery } from './query.ts'

/** The most rows of one answer of a report. */
export const maxReportRows = 100_000

/**
 * The query fields of a report: `query: z.object({ ...reportQuery, … }), codes: { query: pagingCodes }`. Unlike a list, it
 * has all rows if `limit` is left out, and a limit above the maximum is refused.
 */
export const reportQuery = {
  limit: integerQuery({
    min: 1,
    max: maxReportRows,
    description: `How many rows, at most ${maxReportRows}. Left out: all, up to this number.`,
  }).optional(),
  offset: integerQuery({
    min: 0,
    description: 'How many rows to leave out from the first on. Left out: none.',
  }).optional(),
} as const

export type Rows = { readonly limit: number; readonly offset: number }

export const rowsOf = ({
  limit = maxReportRows,
  offset = 0,
}: {
  readonly limit?: number | undefined
  readonly offset?: number | undefined
}): Rows => ({ limit, offset })

/** The fields of a report's answer. `rowFields` gives their values. */
export const reportShape = {
  complete: z.boolean().meta({
    description:
      'Whether the answer has all rows of the report. False: other rows are left out, before the offset or after the limit.',
  }),
  total: z
    .int()
    .min(0)
    .meta({ description: 'The number of rows of the report, with those that are left out.' }),
  limit: z.int().min(1).max(maxReportRows).meta({ description: 'The limit that was used.' }),
  offset: z.int().min(0).meta({ description: 'The offset that was used.' }),
} as const

export const rowFields = (total: number, { limit, offset }: Rows) => ({
  complete: total === 0 || (offset === 0 && total <= limit),
  total,
  limit,
  offset,
})

export const exampleRows = { complete: true, total: 1, limit: maxReportRows, offset: 0 } as const
