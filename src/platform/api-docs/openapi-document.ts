import { setImmediate } from 'node:timers/promises'
import { positionToken } from '../../kernel/log-position.ts'
import { acceptedScopes } from '../http/rate-limit.ts'
import type { ResponseDeclaration, Responses, Route } from '../http/route.ts'
import {
  type Components,
  createComponents,
  operationParameters,
  usedParameters,
} from './openapi-components.ts'
import { errorResponses, frameworkHeaders, ownHeaders } from './openapi-errors.ts'
import { eventsTag, type WebhookDeclaration, webhooksPart } from './openapi-webhooks.ts'
import { pascal } from './schema-rules.ts'

/** The text at the head of the interface description (Markdown). */
export const description = `Farebox sells proxies from a prepaid wallet.

- **Money** is whole cents in USD: \`120\` is $1.20.
- **Keys** go into \`X-API-Key\` or \`Authorization: Bearer\`. A key carries scopes: \`buy\` orders and reads, \`scrape\` runs the scrapers, \`read\` reads and changes nothing. The operator of the service creates keys: \`bin/farebox keys create\`.
- **Errors** are \`{ "error", "code", "requestId" }\`. Branch on \`code\`. Nothing is charged by a request that is refused.
- **Retries** are safe: send the same \`Idempotency-Key\` again. \`429\`, \`503\` and \`502 gateway_unavailable\` say in \`Retry-After\` when.
- **Bodies** are strict: a field that an operation does not read is \`400 unknown_field\`.
- **Lists** take \`limit\` and \`offset\` and answer \`total\`, newest first.
- **Resellers** name a customer in \`X-Reseller-Customer-Id\`, or in \`customer_id\` of the query: what is read or changed is then that customer's alone.
- **Reads follow writes**: a read shows what the same account wrote before. Over several processes, send back the header \`X-Farebox-Position\` from the answer of the write: every operation with a key reads it.
- **Positions** of the log are opaque texts, such as \`pos_0_1284\`: send one back as it came, and compare for equality only.
- **Order** is promised within an account only: nothing says which of two accounts' events came first.
- **Paths** have no slash at their end: with one they are redirected (\`308\`) to the path without it.
- **Two documents**: \`/openapi.json\` has an operation for each scraper. \`/openapi-core.json\` has one for all of them: a generated client is much smaller.
- **Request ids**: send your own in \`X-Request-Id\` (letters, digits, \`._:-\`, at most 128) or get one; every answer carries it.`

/** A description of each group of operations. */
export const tagDescriptions: Readonly<Record<string, string>> = {
  Account: 'Who a key belongs to, its wallet and what moved in it.',
  Catalog: 'Products, their prices and what can be ordered now.',
  Deposits: 'Topping up the wallet, or the credit of a customer, on a hosted page.',
  Orders: 'Buying from the wallet, and what became of it.',
  Plans: 'Traffic and time that were bought: what is left, labels, top-ups.',
  Proxies: 'Rented addresses: credentials, labels, extensions.',
  Webhooks: 'Where to send events, and what became of what was sent. Every event is listed under Events.',
  'Free tools':
    'Live public proxies, a check of any proxy, look-ups of addresses and the networks behind them. They need no key and ignore one.',
  Scrapers:
    'Public data of platforms, call by call: each is charged by what comes of it, and a retry with the same `X-Request-Id` costs nothing.',
  Finance: 'The books, for finance: read-only, with a token of its own.',
  Resellers: 'Customers of resellers, what was earned with them, and statements that lead back to the log.',
  Service: 'The service itself.',
}

type Json = Readonly<Record<string, unknown>>

export type OpenApiDocument = {
  readonly openapi: '3.1.0'
  readonly paths: Readonly<Record<string, Readonly<Record<string, Json>>>>
  readonly components: { readonly schemas: Readonly<Record<string, Json>>; readonly [part: string]: unknown }
  readonly [field: string]: unknown
}

export type DocumentOptions = {
  /** Adds the hidden routes, and closes answers against undeclared fields: for tests. */
  readonly forTests?: boolean
  /** The events for receivers. */
  readonly webhooks?: readonly WebhookDeclaration[]
  /** The address of the service for clients. Left out: the address of the document. */
  readonly serverUrl?: string
}

const headerSchemas: Readonly<Record<string, Json>> = {
  'X-Request-Id': {
    description: 'The id of the request: the id of the client, or an id that the server created.',
    schema: { type: 'string' },
    example: 'req_0190d0a2c1d27f0e8f6e5c4b3a291807',
  },
  'Retry-After': {
    description: 'The time to wait before the next request, in whole seconds, at least 1.',
    schema: { type: 'integer', minimum: 1, format: 'int64' },
    example: 1,
  },
  RateLimit: {
    description:
      'The state of each limit: `r` is the number of requests that are allowed now. The full number is allowed after `t` seconds.',
    schema: { type: 'string' },
    example: '"key";r=0;t=6',
  },
  'RateLimit-Policy': {
    description:
      'The definition of each limit: `q` is the number of requests that are allowed at once. The full number is allowed again after `w` seconds.',
    schema: { type: 'string' },
    example: '"key";q=300;w=6',
  },
  'X-Farebox-Position': {
    description:
      'The position of the write in the log. Send the unchanged value with a read that must show the write.',
    schema: { type: 'string' },
    example: positionToken(1284),
  },
}

const textOf = ({ text }: ResponseDeclaration): Json | undefined =>
  text && { [text.mediaType]: { schema: { type: 'string' }, example: text.example } }

/**
 * The one media type of an answer: of two, generators make a type that is neither. The plain answer beside JSON is
 * `x-other-content`, in the form of `content`.
 */
const contentOf = (response: ResponseDeclaration, name: string, components: Components): Json | undefined => {
  if (response.body === undefined) return textOf(response)
  return {
    'application/json': {
      schema: components.add(response.body, 'output', name),
      ...(response.example === undefined ? {} : { example: response.example }),
    },
  }
}

const headersOf = (route: Route, status: number, response: ResponseDeclaration): Json => ({
  ...frameworkHeaders(route, status),
  ...(route.writes ? { 'X-Farebox-Position': { $ref: '#/components/headers/X-Farebox-Position' } } : {}),
  ...ownHeaders(response.headers),
})

const successResponses = (route: Route, components: Components): Json =>
  Object.fromEntries(
    Object.entries(route.responses as Responses).map(([status, response]) => {
      const content = contentOf(response, `${pascal(route.operationId)}Answer`, components)
      return [
        status,
        {
          description: response.description,
          headers: headersOf(route, Number(status), response),
          ...(content === undefined ? {} : { content }),
          ...(response.body && response.text && { 'x-other-content': textOf(response) }),
        },
      ]
    }),
  )

const requestBody = (route: Route, components: Components): Json =>
  route.body === undefined
    ? {}
    : {
        requestBody: {
          required: true,
          content: {
            'application/json': {
              schema: components.add(route.body, 'input', `${pascal(route.operationId)}Request`),
              ...(route.examples?.body === undefined ? {} : { example: route.examples.body }),
            },
          },
        },
      }

const aboutFinanceTokens =
  'A token that `farebox finance token create` showed once. It reads the books and nothing else.'

const financeTokens: Json = {
  FinanceToken: { type: 'http', scheme: 'bearer', description: aboutFinanceTokens },
  FinanceTokenHeader: { type: 'apiKey', in: 'header', name: 'X-API-Key', description: aboutFinanceTokens },
}

const security = ({ access }: Route): readonly Json[] => {
  if (access === 'public') return []
  if (access === 'finance') return [{ FinanceToken: [] }, { FinanceTokenHeader: [] }]
  const roles = access === 'any-key' ? [] : [access]
  return [{ ApiKey: roles }, { Bearer: roles }]
}

const needs = (route: Route): string => {
  const { access } = route
  if (access === 'public') return 'No key needed.'
  if (access === 'finance') return 'Needs a finance token; API keys are refused.'
  const accepted = acceptedScopes(route)
  return accepted === null
    ? 'Any valid key.'
    : `Needs the scope ${accepted.map((scope) => `\`${scope}\``).join(' or ')}.`
}

const operationOf = (route: Route, components: Components): Json => {
  const parameters = operationParameters(route, components)
  return {
    operationId: route.operationId,
    summary: route.summary,
    description: `${route.description}\n\n${needs(route)}`,
    tags: [route.tag],
    security: security(route),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...requestBody(route, components),
    responses: { ...successResponses(route, components), ...errorResponses(route, components) },
  }
}

function* pathsOf(
  routes: readonly Route[],
  components: Components,
): Generator<undefined, OpenApiDocument['paths']> {
  const paths: Record<string, Record<string, Json>> = {}
  for (const route of routes) {
    const operation = { [route.method.toLowerCase()]: operationOf(route, components) }
    paths[route.path] = { ...paths[route.path], ...operation }
    yield
  }
  return paths
}

/** The known groups in a useful order for readers, then the others. */
const tagsOf = (routes: readonly Route[]): readonly Json[] => {
  const usedTags = new Set(routes.map(({ tag }) => tag as string))
  const names = [...Object.keys(tagDescriptions).filter((name) => usedTags.has(name)), ...usedTags]
  return [...new Set(names)].map((name) => ({ name, description: tagDescriptions[name] ?? name }))
}

/** Yields after each operation: all of them together take a tenth of a second of the main thread. */
function* documentSteps(
  all: readonly Route[],
  options: DocumentOptions,
): Generator<undefined, OpenApiDocument> {
  const routes = options.forTests ? all : all.filter(({ hidden }) => hidden !== true)
  const components = createComponents(options.forTests === true)
  const paths = yield* pathsOf(routes, components)
  const webhooks = webhooksPart(options.webhooks ?? [], components)
  return {
    openapi: '3.1.0',
    info: {
      title: 'Farebox',
      version: '1.0.0',
      summary: 'Proxies from a prepaid wallet, for customers, resellers and programs.',
      description,
      license: { name: 'Proprietary', identifier: 'LicenseRef-Proprietary' },
    },
    servers: [{ url: options.serverUrl ?? '/', description: 'This server.' }],
    tags: [...tagsOf(routes), ...(options.webhooks?.length ? [eventsTag] : [])],
    paths,
    ...webhooks,
    components: {
      schemas: components.schemas,
      responses: components.responses,
      parameters: usedParameters(routes),
      headers: headerSchemas,
      securitySchemes: {
        ApiKey: {
          type: 'apiKey',
          in: 'header',
          name: 'X-API-Key',
          description: 'The key as it was shown once.',
        },
        ...(routes.some(({ access }) => access === 'finance') && financeTokens),
        Bearer: { type: 'http', scheme: 'bearer', description: 'The same key as a bearer token.' },
      },
    },
  }
}

/** The interface description (OpenAPI 3.1.0, version 1.0.0), generated from the route declarations alone. */
export const openApiDocument = (routes: readonly Route[], options: DocumentOptions = {}): OpenApiDocument => {
  const steps = documentSteps(routes, options)
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
  }
}

/**
 * As `openApiDocument`, but other requests run between the operations: none of them waits longer than one operation
 * takes.
 */
export const buildOpenApiDocumentInSteps = async (
  routes: readonly Route[],
  options: DocumentOptions = {},
): Promise<OpenApiDocument> => {
  const steps = documentSteps(routes, options)
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
    await setImmediate()
  }
}
