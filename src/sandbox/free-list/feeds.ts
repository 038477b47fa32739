import { createHash } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type pg from 'pg'
import { answer, type SandboxRecords } from '../sandbox-store.ts'
import { planProxies } from './plan.ts'
import { type RunningProxy, startFreeProxies } from './run-proxies.ts'

/** Lists of proxies in the forms in which they are found, each with a validator: whoever has it gets 304. */
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

/** Half of the proxies stand in the text, half in the JSON; what else such lists hold stands between. */
export const feedRoutes = (app: FastifyInstance, running: readonly RunningProxy[]): void => {
  const [inText, inJson] = [0, 1].map((half) => running.filter((_, at) => (at >> 1) % 2 === half)) as [
    RunningProxy[],
    RunningProxy[],
  ]
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

/** Each fault is there at least once, and every protocol and anonymity works somewhere. */
const howMany = 44

/** Where the feeds of a sandbox that runs are; other processes find them there. */
export type SandboxFeeds = { readonly baseUrl: string }

const kind = 'free proxies'

/**
 * Starts the free proxies of the sandbox. Their addresses are in 127.80.0.0/12, which Linux gives to every process; where a
 * system does not, there are none and a log line says so.
 */
export const openSandboxProxies = async (parts: {
  readonly records: SandboxRecords
  readonly clock: () => number
  readonly logger: { warn(what: object, text: string): void }
}): Promise<SandboxProxies> => {
  try {
    return await startFreeProxies({ ...parts, planned: planProxies(howMany) })
  } catch (err) {
    parts.logger.warn({ err }, 'this system has no address 127.80.0.1: the sandbox runs no free proxies')
    return { running: [], close: async () => undefined }
  }
}

export const storeFeeds = async (records: SandboxRecords, baseUrl: string): Promise<void> => {
  await records.change<SandboxFeeds>(kind, 'feeds', () => ({ baseUrl }))
}

/** Null: no sandbox serves any. */
export const readFeeds = async (records: SandboxRecords): Promise<SandboxFeeds | null> =>
  records.get<SandboxFeeds>(kind, 'feeds')

/** What a former start kept: a service whose sandbox is off has none. */
export const deleteSandboxFeeds = async (pool: pg.Pool): Promise<void> => {
  await pool.query('delete from work.sandbox_records where kind = $1::text and id = $2::text', [
    kind,
    'feeds',
  ])
}
