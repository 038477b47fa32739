import { z } from 'zod'
import { type Route, type RouteLimit, route } from '../../platform/http/route.ts'
import { ipField } from './ip-field.ts'
import { IpLookup, type LookUp, lookupExample } from './lookup.ts'

/** `GET /api/ip-lookup`: where an address is and who announces it, for everybody. */
export const ipLookupRoutes = (deps: {
  readonly lookUp: LookUp
  readonly limit: RouteLimit | null
}): readonly Route[] => [
  route({
    method: 'GET',
    path: '/api/ip-lookup',
    operationId: 'lookUpIp',
    summary: 'Where an address is',
    description:
      'Country, city, network and time zone of an address, and whether it is a public proxy. Of a private or reserved address everything but that is null. Needs no key. The places are estimates: of a city they may be an hour by car wrong.',
    tag: 'Free tools',
    access: 'public',
    writes: false,
    cors: true,
    query: z.object({ ip: ipField('The address; left out: the one that you ask from.').optional() }),
    codes: { query: { ip: 'invalid_ip' } },
    examples: { query: { ip: lookupExample.ip } },
    ...(deps.limit === null ? {} : { limit: deps.limit }),
    responses: { 200: { description: 'What is known of it.', body: IpLookup, example: lookupExample } },
    errors: [],
    handler: async ({ query, address }) => ({ status: 200, body: await deps.lookUp(query.ip ?? address) }),
  }),
]
