import { createMcpHandler, type McpHttpHandler } from '@modelcontextprotocol/server'
import type { Logger } from 'pino'
import { type ApiRequest, type Route, route } from '../../platform/http/route.ts'
import { type ToolCaller, type ToolDeps, toolServer } from './mcp-tools.ts'

export const mcpPath = '/mcp'

/** Names of this machine: a browser sends them as the origin of a page that this machine serves. */
const loopbackNames: ReadonlySet<string> = new Set(['localhost', '127.0.0.1', '[::1]'])

/**
 * Whether a request may come from this page. Programs send no Origin. A browser does, and a page of somebody else that had
 * its name lead to this machine would send its own (DNS rebinding; the transport of the protocol wants it refused).
 */
const isOwnOrigin = (origin: string | undefined, publicUrl: string): boolean => {
  if (origin === undefined) return true
  const url = URL.parse(origin)
  return url !== null && (url.origin === new URL(publicUrl).origin || loopbackNames.has(url.hostname))
}

const answerText = 'application/json'

/** What the protocol's own handler answers with, besides 200. */
const statuses = [202, 400, 403, 404, 405, 406, 413, 415, 500] as const

const responses = {
  200: { description: 'A JSON-RPC answer.', text: { mediaType: answerText, example: '' } },
  ...(Object.fromEntries(
    statuses.map((status) => [
      status,
      { description: 'As the protocol says.', text: { mediaType: answerText, example: '' } },
    ]),
  ) as Record<
    (typeof statuses)[number],
    { description: string; text: { mediaType: string; example: string } }
  >),
}

const forbidden = JSON.stringify({
  jsonrpc: '2.0',
  error: { code: -32_000, message: 'this origin may not use the tools' },
  id: null,
})

const headersOf = ({ headers }: ApiRequest): Headers => {
  const sent = new Headers()
  for (const [name, value] of Object.entries(headers))
    if (value !== undefined) sent.set(name, Array.isArray(value) ? value.join(', ') : value)
  return sent
}

/**
 * `POST /mcp`: the free tools for assistants, by the Model Context Protocol. Each request stands alone, without a session,
 * and both eras of the protocol are answered on this one path: that of 2025, which begins with `initialize`, and that of
 * 2026-07-28, whose requests carry all they need.
 */
export const mcpRoutes = (
  deps: ToolDeps & {
    /** The address of this service, as it knows it. */
    readonly publicUrl: () => string
    readonly version: string
    readonly logger: Logger
  },
): readonly Route[] => {
  const handlerFor = (caller: ToolCaller): McpHttpHandler =>
    createMcpHandler(() => toolServer(deps, caller, deps.version), {
      // The tools never change while the process runs: nothing would ever be sent on a subscription.
      maxSubscriptions: 1,
      onerror: (err) => deps.logger.debug({ err }, 'a request of the tool server was refused or failed'),
    })

  return [
    route({
      method: 'POST',
      path: mcpPath,
      operationId: 'callTools',
      summary: 'The free tools, for assistants',
      description:
        'The Model Context Protocol over streamable HTTP, with the tools ip_lookup, proxy_check and proxy_list.',
      tag: 'Free tools',
      access: 'public',
      writes: false,
      hidden: true,
      rawBody: true,
      responses,
      errors: [],
      handler: async (request) => {
        const { raw, address, clientGone, headers } = request
        if (!isOwnOrigin(headers.origin, deps.publicUrl())) return { status: 403, text: forbidden }
        const signal = clientGone()
        const handler = handlerFor({ address, gone: signal })
        const asked = new Request(new URL(mcpPath, deps.publicUrl()), {
          method: 'POST',
          headers: headersOf(request as ApiRequest),
          body: new Uint8Array(raw),
          signal,
        })
        const answer = await handler.fetch(asked)
        const text = await answer.text()
        const mediaType = answer.headers.get('content-type')?.split(';')[0] ?? answerText
        return { status: answer.status as 200, text, mediaType }
      },
    }),
  ]
}
