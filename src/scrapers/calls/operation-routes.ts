import { z } from 'zod'
import type { Route } from '../../platform/http/route.ts'
import { dollarsOfMicros } from '../../terms/money.ts'
import { bodySchema, dataSchema } from '../catalog/body-schemas.ts'
import { exampleBody, rowName, type ScraperRow } from '../catalog/row.ts'
import { scrapers } from '../catalog/table.ts'
import { ScrapeAnswer, ScrapeDryRun } from './routes.ts'

const sentence = (text: string): string => `${text}.`

const nameOf = ({ platform, operation }: ScraperRow): string =>
  [platform, ...operation.split('-')]
    .map((word) => `${word.charAt(0).toUpperCase()}${word.slice(1)}`)
    .join('')

/** Each scraper as an operation of its own, for the interface description: requests go to the one route of all. */
export const operationRoutes = (generic: Route): readonly Route[] =>
  scrapers.map((row): Route => {
    const { params: _params, ...common } = generic
    const price = dollarsOfMicros(row.priceMicros)
    return {
      ...common,
      path: `/v1/scrape/${rowName(row)}`,
      operationId: `scrape${nameOf(row)}`,
      summary: `${row.platform}: ${row.summary.charAt(0).toLowerCase()}${row.summary.slice(1)}`,
      description: [
        sentence(row.summary),
        `Costs $${price}.`,
        ...(row.note === null ? [] : [sentence(row.note)]),
        ...(row.isSearch ? ['A call without a hit costs nothing.'] : []),
      ].join(' '),
      body: bodySchema(row),
      examples: { body: exampleBody(row) },
      errorsAs: 'Scrape',
      responses: {
        200: {
          ...(generic.responses[200] as object),
          description: sentence(row.answer.description),
          body: z.union([
            z.intersection(ScrapeAnswer, z.looseObject({ data: dataSchema(row) })),
            ScrapeDryRun,
          ]),
          example: undefined,
        },
      },
    } as Route
  })
