import { createHash } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type pg from 'pg'
import { isDatabaseOutage } from '../../platform/postgres/errors.ts'
import { answer, type SandboxRecords } from '../sandbox-store.ts'
import { planProxies } from './plan.ts'
import { type RunningProxy, startFreeProxies } from './run-proxies.ts'

/** Answers with an entity tag, or with 304 if the request has the same tag. */
const conditional = (
  request: FastifyRequest,
  reply: FastifyReply,
  type: string,
  body: string,
): FastifyReply => {
  const tag = `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`
  reply.header('etag', tag)
  return request.headers['if-none-match'] === tag ? reply.code(304).send() : reply.type(type).send(body)
}

/** The feeds: half of the proxies as text, half as JSON, and invalid entries, as in real feeds. */
export const feedRoutes = (app: FastifyInstance, running: readonly RunningProxy[]): void => {
  const [inText, inJson] = [0, 1].map((feedIndex) =>
    running.filter((_, at) => (at >> 1) % 2 === feedIndex),
  ) as [RunningProxy[], RunningProxy[]]
  app.get('/_sandbox/freelist/proxies.txt', async (request, reply) =>
    conditional(
      request,
      reply,
      'text/plain; charset=utf-8',
      [
        '# SANDBOX: free proxies of this machine',
        ...inText.map(({ planned: { ip, protocols }, port }, at) =>
          at % 3 === 0 ? `${protocols[0]}://${ip}:${port}` : `${ip}:${port}`,
        ),
        'not a proxy',
        '10.0.0.1:8080',
      ].join('\n'),
    ),
  )
  app.get('/_sandbox/freelist/proxies.json', async (request, reply) =>
    conditional(
      request,
      reply,
      'application/json',
      JSON.stringify({
        sandbox: true,
        data: inJson.map(({ planned: { ip, protocols }, port }) => ({ ip, port: String(port), protocols })),
      }),
    ),
  )
  app.get('/_sandbox/freelist', async (_request, reply) =>
    answer(reply, 200, {
      proxies: running.map(({ planned: { id, ip, fault, truth }, port }) => ({ id, ip, port, fault, truth })),
    }),
  )
}

export type SandboxProxies = { readonly running: readonly RunningProxy[]; close(): Promise<void> }

/** Enough proxies for each fault once, and for a working proxy of every protocol and anonymity level. */
const proxyCount = 44

/** The address of the feeds of the running sandbox, stored for other processes. */
export type SandboxFeeds = { readonly baseUrl: string }

const kind = 'free proxies'

/**
 * Starts the free proxies of the sandbox. Their addresses are in 127.80.0.0/12, which every process can use on Linux.
 * On other systems no free proxies are started, and a warning is logged.
 */
export const openSandboxProxies = async (options: {
  readonly records: SandboxRecords
  readonly clock: () => number
  readonly logger: { warn(what: object, text: string): void }
}): Promise<SandboxProxies> => {
  try {
    return await startFreeProxies({ ...options, planned: planProxies(proxyCount) })
  } catch (err) {
    if (isDatabaseOutage(err)) throw err
    options.logger.warn({ err }, 'this system has no address 127.80.0.1: the sandbox runs no free proxies')
    return { running: [], close: async () => undefined }
  }
}

export const storeFeeds = async (records: SandboxRecords, baseUrl: string): Promise<void> => {
  await records.change<SandboxFeeds>(kind, 'feeds', () => ({ baseUrl }))
}

/** The address of the feeds; null if no sandbox serves feeds. */
export const readFeeds = async (records: SandboxRecords): Promise<SandboxFeeds | null> =>
  records.get<SandboxFeeds>(kind, 'feeds')

/** Deletes the address that an earlier start stored, for a service without a sandbox. */
export const deleteSandboxFeeds = async (pool: pg.Pool): Promise<void> => {
  await pool.query('delete from work.sandbox_records where kind = $1::text and id = $2::text', [
    kind,
    'feeds',
  ])
}
