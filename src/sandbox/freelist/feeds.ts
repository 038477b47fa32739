import { createHash } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { answer } from '../till.ts'
import type { RunningProxy } from './proxies.ts'

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
