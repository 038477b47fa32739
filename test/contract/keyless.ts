import type { Called, HttpClient } from '../support/http.ts'
import type { Case } from './cases.ts'
import type { Request } from './requests.ts'

/** For every operation of the free tools a request that succeeds; none sends a key. */
export const keylessRequests: Readonly<Record<string, Request>> = {
  listFreeProxies: { method: 'GET', path: '/api/proxy-list' },
  lookUpIp: { method: 'GET', path: '/api/ip-lookup?ip=8.8.8.8' },
}

const sent = (client: HttpClient, { method, path, ...options }: Request): Promise<Called> =>
  client.call(method, path, options)

const get = (operation: string, answer: string, path: string, client: HttpClient): Case => ({
  operation,
  answer,
  how: path,
  send: () => client.get(path),
})

export const keylessCases = (client: HttpClient): readonly Case[] => [
  ...Object.entries(keylessRequests).map(([operation, request]) => ({
    operation,
    answer: '200',
    how: 'as it should be',
    send: () => sent(client, request),
  })),
  {
    operation: 'listFreeProxies',
    answer: '304',
    how: 'the list that was sent before',
    send: async () => {
      const { headers } = await client.get('/api/proxy-list')
      return client.get('/api/proxy-list', { headers: { 'If-None-Match': headers.get('etag') ?? '' } })
    },
  },
  get('listFreeProxies', '400 invalid_parameter', '/api/proxy-list?protocol=ftp', client),
  get('listFreeProxies', '400 invalid_limit', '/api/proxy-list?limit=0', client),
  get('lookUpIp', '400 invalid_ip', '/api/ip-lookup?ip=here', client),
]

/** @param client of a service in which each address may ask once a second */
export const keylessLimited = (client: HttpClient): readonly Case[] =>
  Object.entries(keylessRequests).map(([operation, request]) => ({
    operation,
    answer: '429 rate_limited',
    how: 'at once',
    send: async () => {
      const answers = await Promise.all([sent(client, request), sent(client, request), sent(client, request)])
      return answers.find(({ status }) => status === 429) ?? answers[0]
    },
  }))

/** @param client of a service that cannot read its record */
export const keylessBlind = (client: HttpClient): readonly Case[] =>
  Object.entries(keylessRequests).map(([operation, request]) => ({
    operation,
    answer: '503 overloaded',
    how: 'the record is locked',
    send: () => sent(client, request),
  }))
