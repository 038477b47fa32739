import type { IncomingHttpHeaders } from 'node:http'
import { createMcpHandler, type McpHttpHandler } from '@modelcontextprotocol/server'
import type { Logger } from 'pino'
import { type ApiRequest, type Route, route } from '../../platform/http/route.ts'
import { type ToolCaller, type ToolDeps, toolServer } from './mcp-tools.ts'

export const mcpPath = '/mcp'

/** Names of this machine, which browsers send as the origin of pages that this machine serves. */
const loopbackNames: ReadonlySet<string> = new Set(['localhost', '127.0.0.1', '[::1]'])

/**
 * Detects DNS rebinding, which the protocol's transport requires servers to refuse: a page made its own name resolve to
 * this machine. Then Origin and Host are equal and not ours. Other pages may use the tools like all clients without a
 * key.
 */
const isRebound = ({ origin, host }: IncomingHttpHeaders, publicUrl: string): boolean => {
  if (origin === undefined) return false
  const url = URL.parse(origin)
  if (url === null) return true
  const isOwn = url.origin === new URL(publicUrl).origin || loopbackNames.has(url.hostname)
  return !isOwn && url.host === host
}

/** Whether an Accept header allows JSON (RFC 9110, 12.5.1). A missing one allows everything. */
const takesJson = (accept: string | undefined): boolean => {
  if (accept === undefined || accept.trim() === '') return true
  const weights = new Map(
    accept.split(',').map((range): [string, boolean] => {
      const [type = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase())
      return [type, !parameters.some((parameter) => /^q\s*=\s*0(\.0*)?$/.test(parameter))]
    }),
  )
  return weights.get('application/json') ?? weights.get('application/*') ?? weights.get('*/*') ?? false
}

const eventStream = 'text/event-stream'

/** The protocol's own handler requires both media types and chooses one. */
const acceptOfProtocol = `application/json, ${eventStream}`

/** The answer in an event stream: its last message. Earlier ones are notifications. */
const lastData = (events: string): string =>
  events
    .match(/^data: .*$/gm)
    ?.at(-1)
    ?.slice('data: '.length) ?? ''

const answerText = 'application/json'

/** Statuses of the protocol's own handler other than 200. */
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
  if (takesJson(headers.accept)) sent.set('accept', acceptOfProtocol)
  return sent
}

/**
 * `POST /mcp`: the free tools for assistants, by the Model Context Protocol. Requests are stateless, without a session.
 * This path supports both versions of the protocol: that of 2025, which begins with `initialize`, and that of
 * 2026-07-28, whose requests contain all they need.
 */
export const mcpRoutes = (
  deps: ToolDeps & {
    /** The configured address of this service. */
    readonly publicUrl: () => string
    readonly version: string
    readonly logger: Logger
  },
): readonly Route[] => {
  const handlerFor = (caller: ToolCaller): McpHttpHandler =>
    createMcpHandler(() => toolServer(deps, caller, deps.version), {
      // The tools do not change while the process runs, so a subscription never receives anything.
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
      cors: true,
      rawBody: true,
      responses,
      errors: [],
      handler: async (request) => {
        const { raw, address, clientGone, headers } = request
        if (isRebound(headers, deps.publicUrl())) return { status: 403, text: forbidden }
        const signal = clientGone()
        const handler = handlerFor({ address, gone: signal })
        const mcpRequest = new Request(new URL(mcpPath, deps.publicUrl()), {
          method: 'POST',
          headers: headersOf(request as ApiRequest),
          body: new Uint8Array(raw),
          signal,
        })
        const answer = await handler.fetch(mcpRequest)
        const sent = await answer.text()
        const sentType = answer.headers.get('content-type')?.split(';')[0] ?? answerText
        const isUnread =
          sentType === eventStream && !(headers.accept ?? '').toLowerCase().includes(eventStream)
        const [text, mediaType] = isUnread ? [lastData(sent), answerText] : [sent, sentType]
        return { status: answer.status as 200, text, mediaType }
      },
    }),
  ]
}
