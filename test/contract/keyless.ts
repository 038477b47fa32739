import type { Called, CallOptions, HttpClient } from '../support/http.ts'
import type { Case } from './case.ts'
import type { Request } from './requests.ts'

/** For every operation of the free tools a request that succeeds; none sends a key. */
export const keylessRequests: Readonly<Record<string, Request>> = {
  listFreeProxies: { method: 'GET', path: '/api/proxy-list' },
  lookUpIp: { method: 'GET', path: '/api/ip-lookup?ip=8.8.8.8' },
  checkFreeProxy: { method: 'GET', path: '/api/proxy-check?proxy=127.80.255.1:9' },
  checkFreeProxies: { method: 'POST', path: '/api/proxy-check', json: { proxies: ['127.80.255.1:9'] } },
  listFreeNetworks: { method: 'GET', path: '/api/networks' },
  getFreeNetwork: { method: 'GET', path: '/api/networks/AS15169' },
}

/** Those that need no record, but a judge. */
const checking = ['checkFreeProxy', 'checkFreeProxies']

const sent = (client: HttpClient, { method, path, ...options }: Request): Promise<Called> =>
  client.call(method, path, options)

const get = (operation: string, answer: string, path: string, client: HttpClient): Case => ({
  operation,
  answer,
  how: path,
  send: () => client.get(path),
})

/** The same of an address that could be a proxy outside the sandbox; it is not dialled where no judge answers. */
const elsewhere = ({ json, ...request }: Request): Request =>
  JSON.parse(
    JSON.stringify(json === undefined ? request : { ...request, json }).replaceAll('127.80.255.1', '8.8.8.8'),
  )

const post = (answer: string, options: CallOptions, client: HttpClient): Case => ({
  operation: 'checkFreeProxies',
  answer,
  how: 'a bad body',
  send: () => client.call('POST', '/api/proxy-check', options),
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
  get('lookUpIp', '400 invalid_parameter', '/api/ip-lookup?ip=8.8.8.8&colour=1', client),
  get('getFreeNetwork', '400 invalid_parameter', '/api/networks/AS15169?colour=1', client),
  get('lookUpIp', '400 invalid_ip', '/api/ip-lookup?ip=here', client),
  get('checkFreeProxy', '400 invalid_parameter', '/api/proxy-check?proxy=10.0.0.1:80', client),
  get('listFreeNetworks', '400 invalid_parameter', '/api/networks?country=zz', client),
  get('listFreeNetworks', '400 invalid_limit', '/api/networks?limit=0', client),
  get('listFreeNetworks', '400 invalid_offset', '/api/networks?offset=-1', client),
  get('getFreeNetwork', '404 not_found', '/api/networks/4294967295', client),
  post('400 invalid_parameter', { json: { proxies: ['10.0.0.1:80'] } }, client),
  post('400 invalid_body', { json: {} }, client),
  post('400 unknown_field', { json: { proxies: ['127.80.255.1:9'], judge: 'mine' } }, client),
  post('413 payload_too_large', { json: { proxies: ['x'.repeat(300_000)] } }, client),
  post('415 unsupported_media_type', { raw: 'x', headers: { 'Content-Type': 'text/plain' } }, client),
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

/** @param client of a service that cannot read its record, and whose judge does not answer */
export const keylessBlind = (client: HttpClient): readonly Case[] =>
  Object.entries(keylessRequests).map(([operation, request]) => ({
    operation,
    answer: '503 overloaded',
    how: 'the record is locked, or no judge answers',
    send: () => sent(client, checking.includes(operation) ? elsewhere(request) : request),
  }))
