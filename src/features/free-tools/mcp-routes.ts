import type { IncomingHttpHeaders } from 'node:http'
import {
  createMcpHandler,
  type McpHttpHandler,
  McpServer,
  type StandardSchemaWithJSON,
} from '@modelcontextprotocol/server'
import type { Logger } from 'pino'
import { z } from 'zod'
import { protocols } from '../../domain/free-list/endpoint.ts'
import { addressSubject } from '../../kernel/ip-address.ts'
import { isOutage } from '../../platform/eventstore/errors.ts'
import { ApiError } from '../../platform/http/errors.ts'
import { type JsonSchema, jsonSchemaOf } from '../../platform/http/json-schema.ts'
import type { RouteLimit } from '../../platform/http/rate-limiter.ts'
import { withoutUnsetFields } from '../../platform/http/request-shape.ts'
import { type ApiRequest, type Route, route } from '../../platform/http/route.ts'
import { defaultLimit, filterFields, ListEntry, type LiveList, maxLimit } from '../free-list/index.ts'
import {
  type CheckProxies,
  defaultTimeoutMs,
  maxProxies,
  maxProxyText,
  proxyForms,
  timeoutBounds,
} from './check-proxies.ts'
import { CheckSummary, ProxyCheckResult, summaryOf } from './check-result.ts'
import { IpLookup, ipField, type LookUp } from './ip-lookup.ts'

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
      {
        description: 'An answer that the Model Context Protocol defines for this status.',
        text: { mediaType: answerText, example: '' },
      },
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

const takesEvents = (accept = ''): boolean => accept.toLowerCase().includes(eventStream)

/** Some clients send `cursor: null` for the first page of a list. The protocol has no such value. */
const withoutNullCursor = (raw: Buffer): Uint8Array<ArrayBuffer> => {
  const text = raw.toString('utf8')
  return new TextEncoder().encode(/"cursor"\s*:\s*null/.test(text) ? withoutNull(text) : text)
}

const withoutNull = (text: string): string => {
  try {
    return JSON.stringify(
      JSON.parse(text, (name, value) => (name === 'cursor' && value === null ? undefined : value)),
    )
  } catch {
    return text // the protocol's own handler refuses it
  }
}

const headersOf = ({ headers }: ApiRequest): Headers => {
  const sent = new Headers()
  for (const [name, value] of Object.entries(headers))
    if (value !== undefined) sent.set(name, Array.isArray(value) ? value.join(', ') : value)
  if (takesJson(headers.accept) || takesEvents(headers.accept)) sent.set('accept', acceptOfProtocol)
  return sent
}

/**
 * `POST /mcp`: the free tools for assistants, by the Model Context Protocol. Requests are stateless, without a session.
 * This path supports both versions of the protocol: that of 2025, which begins with `initialize`, and that of
 * 2026-07-28, whose requests contain all they need.
 */
export const mcpRoutes = (
  dependencies: ToolDependencies & {
    /** The configured address of this service. */
    readonly publicUrl: () => string
    readonly version: string
    readonly logger: Logger
  },
): readonly Route[] => {
  const handlerFor = (caller: ToolCaller): McpHttpHandler =>
    createMcpHandler(() => toolServer(dependencies, caller, dependencies.version), {
      // The tools do not change while the process runs, so a subscription never receives anything.
      maxSubscriptions: 1,
      onerror: (err) =>
        dependencies.logger.debug({ err }, 'a request of the tool server was refused or failed'),
    })

  return [
    route({
      method: 'POST',
      path: mcpPath,
      operationId: 'callTools',
      summary: 'The free tools for AI assistants',
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
        if (isRebound(headers, dependencies.publicUrl())) return { status: 403, text: forbidden }
        const signal = clientGone()
        const handler = handlerFor({ address, gone: signal })
        const mcpRequest = new Request(new URL(mcpPath, dependencies.publicUrl()), {
          method: 'POST',
          headers: headersOf(request as ApiRequest),
          body: withoutNullCursor(raw),
          signal,
        })
        const answer = await handler.fetch(mcpRequest)
        const sent = await answer.text()
        const sentType = answer.headers.get('content-type')?.split(';')[0] ?? answerText
        const { accept } = headers
        const status = answer.status as 200
        if (sentType === eventStream && !takesEvents(accept))
          return { status, text: lastData(sent), mediaType: answerText }
        if (sentType === answerText && sent !== '' && !takesJson(accept))
          return { status, text: `event: message\ndata: ${sent}\n\n`, mediaType: eventStream }
        return { status, text: sent, mediaType: sentType }
      },
    }),
  ]
}

/** Dependencies of the tools: the same operations and limits as over HTTP. */
export type ToolDependencies = {
  readonly list: LiveList
  readonly lookUp: LookUp
  readonly checkProxies: CheckProxies
  readonly limits: { readonly list: RouteLimit | null; readonly lookup: RouteLimit | null }
}

/** The caller of a tool. */
export type ToolCaller = {
  readonly address: string
  /** Aborted when the caller disconnects. */
  readonly gone: AbortSignal
}

/** Fewer rows than over HTTP by default, because an assistant reads all of them. */
const toolLimit = 20

type ToolResult = {
  content: { type: 'text'; text: string }[]
  structuredContent?: Record<string, unknown>
  isError?: true
}

const failed = (text: string): ToolResult => ({ content: [{ type: 'text', text }], isError: true })

const succeeded = (structuredContent: Record<string, unknown>): ToolResult => ({
  content: [{ type: 'text', text: JSON.stringify(structuredContent) }],
  structuredContent,
})

const refusalText = ({ message, code, headers }: ApiError): string => {
  const waitS = headers?.['retry-after']
  return `${code}: ${message}${waitS === undefined ? '' : `; try again in ${waitS} s`}`
}

/** A refusal becomes a result that the assistant can read. Other errors are rethrown. */
const toToolResult = async (work: () => Promise<Record<string, unknown>>): Promise<ToolResult> => {
  try {
    return succeeded(await work())
  } catch (error) {
    if (error instanceof ApiError) return failed(refusalText(error))
    if (isOutage(error)) return failed('overloaded: the service cannot reach its database; try again in 1 s')
    throw error
  }
}

/** A schema as in tool declarations: the JSON Schema of the interface description, generated once. */
const declared = <Schema extends z.ZodType>(
  schema: Schema,
): StandardSchemaWithJSON<z.input<Schema>, z.output<Schema>> => {
  const jsonSchemas = { input: jsonSchemaOf(schema, 'input'), output: jsonSchemaOf(schema, 'output') }
  return {
    '~standard': {
      ...schema['~standard'],
      jsonSchema: { input: () => ({ ...jsonSchemas.input }), output: () => ({ ...jsonSchemas.output }) },
    },
  }
}

/** Whole numbers as texts become numbers: some assistants write every argument as text. */
const withNumbers = (value: unknown, { properties = {} }: JsonSchema): unknown =>
  typeof value !== 'object' || value === null
    ? value
    : Object.fromEntries(
        Object.entries(value).map(([name, given]) => {
          const isNumber = properties[name]?.type === 'integer' && /^\d{1,15}$/.test(String(given))
          return [name, isNumber ? Number(given) : given]
        }),
      )

/** For arguments: null for an optional argument counts as missing, as in request bodies. */
const declaredInput = <Schema extends z.ZodType>(
  schema: Schema,
): StandardSchemaWithJSON<z.input<Schema>, z.output<Schema>> => {
  const { '~standard': standard } = declared(schema)
  const json = jsonSchemaOf(schema, 'input')
  return {
    '~standard': {
      ...standard,
      validate: (value) => standard.validate(withNumbers(withoutUnsetFields(value, schema), json)),
    },
  }
}

const reads = { readOnlyHint: true, destructiveHint: false, idempotentHint: true } as const

const listInput = declaredInput(
  z.strictObject({
    country: filterFields.country.optional(),
    protocol: filterFields.protocol.optional(),
    anonymity: filterFields.anonymity.optional(),
    limit: z
      .int()
      .min(1)
      .max(maxLimit)
      .optional()
      .meta({ description: `The maximum number of proxies. Default: ${toolLimit}.` }),
  }),
)

const listOutput = declared(
  z.object({
    updated_at: z
      .string()
      .nullable()
      .meta({ description: 'The time of the newest check of any proxy. Null: before the first check.' }),
    total: z.int().meta({ description: 'The number of proxies that match the filters.' }),
    count: z.int(),
    proxies: z.array(ListEntry),
  }),
)

const checkInput = declaredInput(
  z.strictObject({
    proxies: z
      .array(z.string().min(1).max(maxProxyText))
      .min(1)
      .max(maxProxies)
      .meta({ description: `The proxies. Accepted forms of each: ${proxyForms}.` }),
    protocols: z
      .array(z.enum(protocols))
      .min(1)
      .max(protocols.length)
      .optional()
      .meta({ description: 'The protocols to check. Default: all four.' }),
    timeout_ms: z
      .int()
      .min(timeoutBounds.min)
      .max(timeoutBounds.max)
      .optional()
      .meta({
        description: `The time limit in milliseconds for the check of each proxy. Default: ${defaultTimeoutMs}.`,
      }),
  }),
)

const checkOutput = declared(z.object({ summary: CheckSummary, results: z.array(ProxyCheckResult) }))

const lookupOutput = declared(IpLookup)

const lookupInput = declaredInput(
  z.strictObject({
    ip: ipField('The address.')
      .optional()
      .meta({ description: 'The address to locate. Left out: the address of the client.' }),
  }),
)

/** @returns null if the limit allows another call; else the refusal */
const overLimit = async (limit: RouteLimit | null, { address }: ToolCaller): Promise<ToolResult | null> => {
  const waitS = (await limit?.take(addressSubject(address)))?.waitS ?? 0
  return waitS > 0
    ? failed(`rate_limited: too many calls; try again in ${Math.max(1, Math.ceil(waitS))} s`)
    : null
}

/** A Model Context Protocol server with the three tools, for the requests of one caller. */
export const toolServer = (
  dependencies: ToolDependencies,
  caller: ToolCaller,
  version: string,
): McpServer => {
  const { list, lookUp, checkProxies, limits } = dependencies
  const server = new McpServer(
    { name: 'farebox', version },
    {
      // The tools do not change while the process runs.
      capabilities: { tools: { listChanged: false } },
      instructions:
        'A list of public proxies with continuous checks, a check of any proxy, and look-ups of IP addresses. No key is required. Do not trust public proxies: send no secrets through them.',
    },
  )
  server.registerTool(
    'ip_lookup',
    {
      title: 'Look an IP address up',
      description:
        'Returns the location of an IPv4 or IPv6 address (country, city, time zone), the network that announces it, and whether it is a public proxy. Show the attribution with the data.',
      inputSchema: lookupInput,
      outputSchema: lookupOutput,
      annotations: { ...reads, openWorldHint: false },
    },
    async ({ ip }) =>
      (await overLimit(limits.lookup, caller)) ?? toToolResult(async () => lookUp(ip ?? caller.address)),
  )
  server.registerTool(
    'proxy_check',
    {
      title: 'Check proxies',
      description: `Sends requests through up to ${maxProxies} proxies. For each proxy, returns whether it works, its protocols, its anonymity, its exit address and its response time. Takes seconds.`,
      inputSchema: checkInput,
      outputSchema: checkOutput,
      annotations: { ...reads, openWorldHint: true },
    },
    async ({ proxies, protocols: requestedProtocols, timeout_ms }) =>
      toToolResult(async () => {
        const results: z.output<typeof ProxyCheckResult>[] = []
        const findings = await checkProxies({
          proxies,
          protocols: requestedProtocols,
          timeoutMs: timeout_ms,
          caller: addressSubject(caller.address),
          signal: caller.gone,
        })
        for await (const { index, result } of findings) results[index] = result
        return { summary: summaryOf(results), results }
      }),
  )
  server.registerTool(
    'proxy_list',
    {
      title: 'List live public proxies',
      description: `Public proxies that answered their last check, sorted by uptime. Filters by country, protocol and anonymity. Request more than ${defaultLimit} only if you need them.`,
      inputSchema: listInput,
      outputSchema: listOutput,
      annotations: { ...reads, openWorldHint: false },
    },
    async ({ limit = toolLimit, ...filter }) =>
      (await overLimit(limits.list, caller)) ??
      toToolResult(async () => {
        const { updatedAt, total, entries } = (await list.current()).page(filter, limit)
        return { updated_at: updatedAt, total, count: entries.length, proxies: entries }
      }),
  )
  return server
}
