import { z } from 'zod'
import { matchesEtag } from '../../platform/http/answer.ts'
import type { RouteLimit } from '../../platform/http/rate-limiter.ts'
import { type Route, route } from '../../platform/http/route.ts'
import { createQueryReader, entryExample, ListEntry, listCodes, listQuery } from './list-entry.ts'
import type { LiveList } from './live-list.ts'

const noteField = z.string().nullable().meta({
  description: 'The fields that are null because the service has no data for them. Null: no data is missing.',
})

const ProxyList = z
  .object({
    updated_at: z.string().nullable().meta({
      format: 'date-time',
      description: 'The time of the newest check of any proxy. Null: before the first check.',
    }),
    total: z.int().meta({ description: 'The number of proxies that match the filters.' }),
    count: z.int().meta({ description: 'The number of proxies in this answer.' }),
    note: noteField,
    proxies: z.array(ListEntry),
  })
  .meta({ id: 'FreeProxyList' })

const example = {
  updated_at: entryExample.last_checked,
  total: 6710,
  count: 1,
  note: null,
  proxies: [entryExample],
}

const etagHeader = {
  ETag: 'The identifier of this answer. Send it as `If-None-Match` to get the list only after a change.',
}

/** `GET /api/proxy-list`: the live proxies. Public. */
export const proxyListRoutes = (dependencies: {
  readonly list: LiveList
  readonly limit: RouteLimit
}): readonly Route[] => {
  const { list, limit } = dependencies
  const queryOf = createQueryReader()
  return [
    route({
      method: 'GET',
      path: '/api/proxy-list',
      operationId: 'listFreeProxies',
      summary: 'The live free proxies',
      description:
        'Public proxies that answered their last check. This service makes the checks. Proxies with the highest uptime come first. The checks run continuously, and this answer is at most three seconds old, so request the list again instead of caching it. No key is required. Do not trust these proxies: their operators can read your traffic.',
      tag: 'Free tools',
      access: 'public',
      writes: false,
      cors: true,
      query: listQuery,
      codes: { query: listCodes },
      examples: { query: { country: 'us', protocol: 'socks5', limit: 10 } },
      limit,
      responses: {
        200: {
          description: 'The proxies as JSON. With `format=txt`: one line of `ip:port` for each proxy.',
          body: ProxyList,
          example,
          text: { mediaType: 'text/plain', example: '203.0.113.7:8080\n' },
          headers: etagHeader,
        },
        304: {
          description: 'The list is the same as the one that `If-None-Match` names.',
          headers: etagHeader,
        },
      },
      errors: [],
      ready: (raw) => {
        const query = queryOf(raw)
        return query === null ? null : (list.latest()?.answer(query) ?? null)
      },
      handler: async ({ query, headers }) => {
        const { text, mediaType, etag } = (await list.current()).answer(query)
        const shared = { etag, 'cache-control': 'no-cache' }
        if (matchesEtag(headers, etag)) return { status: 304, headers: shared }
        return { status: 200, text, mediaType, headers: shared }
      },
    }),
  ]
}
