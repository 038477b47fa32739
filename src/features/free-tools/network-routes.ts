import { z } from 'zod'
import { refuse } from '../../platform/http/errors.ts'
import { pagingCodes, pagingQuery } from '../../platform/http/query.ts'
import type { RouteLimit } from '../../platform/http/rate-limiter.ts'
import { type Route, route } from '../../platform/http/route.ts'
import { filterFields } from '../free-list/index.ts'
import {
  asnOf,
  maxNetworkRows,
  NetworkPage,
  NetworkRecord,
  type Networks,
  pageExample,
  recordExample,
} from './rank-networks.ts'

const asnParam = z
  .string()
  .refine((text) => asnOf(text) !== null)
  .transform((text) => asnOf(text) ?? 0)
  .meta({ description: 'The AS number, with or without the prefix AS.', override: { type: 'string' } })

/** `GET /api/networks` and one network: its live and former proxies. Public. */
export const networkRoutes = (dependencies: {
  readonly networks: Networks
  readonly note: string | null
  readonly limit: RouteLimit
}): readonly Route[] => {
  const { networks, note, limit } = dependencies
  return [
    route({
      method: 'GET',
      path: '/api/networks',
      operationId: 'listFreeNetworks',
      summary: 'Networks with public proxies',
      description:
        'Every network (autonomous system) with a recorded endpoint, with the number of its live proxies, of its endpoints that do not answer now, and of those that never answered. Networks with the most live proxies come first. No key is required.',
      tag: 'Free tools',
      access: 'public',
      writes: false,
      cors: true,
      query: z.object({ ...pagingQuery, country: filterFields.country.optional() }),
      codes: { query: pagingCodes },
      limit,
      responses: { 200: { description: 'A page of networks.', body: NetworkPage, example: pageExample } },
      errors: [],
      handler: async ({ query: { limit: rows, offset, country } }) => {
        const { networks: all, countedAt } = await networks.all(country)
        const page = all.slice(offset, offset + rows)
        return {
          status: 200,
          body: { networks: page, total: all.length, limit: rows, offset, counted_at: countedAt, note },
        }
      },
    }),
    route({
      method: 'GET',
      path: '/api/networks/{asn}',
      operationId: 'getFreeNetwork',
      summary: 'The proxies of a network, live and former',
      description: `The live proxies of a network, the endpoints that answered before but not in their last check, and the addresses that never answered. Each list has at most ${maxNetworkRows} rows, the most recently active first. The counts cover all rows. No endpoint is removed from this record: the checks continue, and an endpoint that answers is listed again. No key is required.`,
      tag: 'Free tools',
      access: 'public',
      writes: false,
      cors: true,
      params: z.object({ asn: asnParam }),
      examples: { params: { asn: 'AS7922' } },
      limit,
      responses: {
        200: { description: 'The record of the network.', body: NetworkRecord, example: recordExample },
      },
      errors: ['not_found'],
      handler: async ({ params: { asn } }) => {
        const found = await networks.one(asn)
        if (found === null)
          throw refuse('not_found', `no network AS${asn} is known${note === null ? '' : ` (${note})`}`)
        return { status: 200, body: found }
      },
    }),
  ]
}
