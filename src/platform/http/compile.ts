import { isUtf8 } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import type { Logger } from 'pino'
import { z } from 'zod'
import { type CustomerIdOf, externalIdForm, parseExternalId } from '../../kernel/external-id.ts'
import { parsePosition, positionForm } from '../../kernel/log-position.ts'
import type { AccountScope as Scope } from '../../kernel/scopes.ts'
import { sentCallId } from './answer.ts'
import { type ApiError, refuse, refuseUnknownPath } from './errors.ts'
import { type CompiledRoute, clientGoneSignal, type HttpRequest } from './exchange.ts'
import { type Checked, isLate, type ShapeCheck, shapeCheck, withExpectedShape } from './request-shape.ts'
import { type Answer, hasCustomer, keyConflict, type Route } from './route.ts'

type Checks = {
  readonly body: ShapeCheck
  readonly unread: CompiledRoute['unread']
  readonly query: ShapeCheck
  /** Whether a customer in the query is refused by `checkHeaders` and not as an unknown parameter. */
  readonly refusesCustomer: boolean
  readonly params: z.ZodObject | null
}

/** A route without a body accepts no body, or an empty object. */
const noBody = z.strictObject({}).optional()

const noBytes = Buffer.alloc(0)

const orThrow = <Value>(checked: Checked<Value>): Value => {
  if (!checked.ok) throw checked.refusal
  return checked.value
}

/**
 * A path with an id that the service cannot have made is not found. The same holds for text that Postgres does not
 * accept.
 */
const checkParams = (schema: z.ZodObject | null, params: unknown): unknown => {
  if (schema === null) return {}
  const checked = schema.safeParse(params)
  const isReadable = Object.values(params as Record<string, string>).every(
    (value) => !value.includes('\u0000'),
  )
  if (!checked.success || !isReadable) throw refuseUnknownPath()
  return checked.data
}

/**
 * The accepted query of a route: its own parameters and perhaps `customer_id`, whose form `namedCustomer` checks.
 * Hidden routes ignore other parameters, because browsers, providers and probes add some to an address. All other
 * routes refuse them, because a misspelt filter or option changes the answer and the price.
 */
const querySchemaOf = (route: Route): z.ZodObject => {
  const declared: z.ZodObject = route.query ?? z.object({})
  if (route.hidden) return declared
  return z.strictObject({
    ...declared.shape,
    ...(hasCustomer(route)
      ? {
          customer_id: z
            .unknown()
            .transform(() => undefined)
            .optional(),
        }
      : {}),
  })
}

const withoutCustomerId = ({ customer_id: _, ...query }: Readonly<Record<string, unknown>>) => query

const checkQuery = (check: ShapeCheck, query: unknown): unknown => {
  const value = orThrow(check(query))
  for (const [name, text] of Object.entries(value as Record<string, unknown>))
    if (typeof text === 'string' && text.includes('\u0000'))
      throw refuse('invalid_parameter', `${name} holds a NUL character`)
  return value
}

const checkBody = (route: Route, checks: Checks, request: HttpRequest): Checked<unknown> => {
  if (route.method === 'GET') return { ok: true, value: undefined }
  const checked = checks.body(request.body?.value)
  if (checked.ok && request.body?.overflowing)
    throw checks.unread(refuse('invalid_body', 'the body holds a number that is out of range'))
  return checked
}

type Keys = { readonly idempotencyKey: string | null; readonly customerRef: string | null }

const customerHeader = 'X-Reseller-Customer-Id'

/** The customer of a request, from the header or the query's `customer_id`. No operation ignores either of them. */
const namedCustomer = (request: HttpRequest): string | null => {
  const headerRef = customerRefOf(request.raw)
  const queryRef = customerQueryOf(request.query)
  if (headerRef !== null && queryRef !== null && headerRef !== queryRef)
    throw refuse(
      'invalid_customer_id',
      `customer_id names another customer than ${customerHeader}: send one of them, or the same in both`,
    )
  return headerRef ?? queryRef
}

/**
 * Checks the forms of the headers, then `reseller_forbidden`, then `idempotency_key_required`, then the operation's
 * refusal of customers.
 */
const checkHeaders = (route: Route, request: HttpRequest): Keys => {
  const { caller } = request.exchange
  const { customer } = route
  const idempotencyKey = route.requestIdIsKey
    ? orThrow(sentCallId(request.raw))
    : route.idempotencyKey === undefined
      ? null
      : idempotencyKeyOf(request.raw)
  const customerRef = caller === null ? null : namedCustomer(request)
  const reseller = caller?.reseller === true
  if (customerRef !== null && !reseller)
    throw refuse('reseller_forbidden', `${customerHeader} is for reseller keys only`)
  if (idempotencyKey === null && reseller && route.idempotencyKey === 'required-for-resellers')
    throw refuse('idempotency_key_required', 'a reseller key must send an Idempotency-Key here')
  if (customerRef !== null && typeof customer === 'object') throw refuse(customer.refused, customer.message)
  return { idempotencyKey, customerRef: customer === 'unaffected' ? null : customerRef }
}

const scopeOf = (
  { exchange: { caller } }: HttpRequest,
  { customerRef }: Keys,
  customerIdOf: CustomerIdOf,
): Scope | null => {
  if (caller === null) return null
  const { accountId } = caller
  return { accountId, customerId: customerRef === null ? null : customerIdOf(accountId, customerRef) }
}

/** A known key with a body that was never acceptable: the key is being used again for a different request. */
const refuseLate = async (
  route: Route,
  refusal: ApiError,
  request: HttpRequest,
  keys: Keys,
): Promise<never> => {
  const { caller } = request.exchange
  if (route.knownKey === undefined || keys.idempotencyKey === null || caller === null) throw refusal
  if (await route.knownKey(caller, keys.idempotencyKey)) throw keyConflict()
  throw refusal
}

const run = async (
  route: Route,
  checks: Checks,
  customerIdOf: CustomerIdOf,
  request: HttpRequest,
  log: () => Logger,
): Promise<Answer> => {
  const { exchange } = request
  const params = checkParams(checks.params, request.params)
  const query = checkQuery(
    checks.query,
    checks.refusesCustomer
      ? withoutCustomerId(request.query as Readonly<Record<string, unknown>>)
      : request.query,
  )
  const body = checkBody(route, checks, request)
  if (!body.ok && !isLate(body.refusal.code)) throw body.refusal
  const keys = checkHeaders(route, request)
  if (!body.ok) return refuseLate(route, body.refusal, request, keys)
  return route.handler({
    caller: exchange.caller ?? exchange.reader,
    requestId: exchange.requestId,
    params,
    query,
    body: body.value,
    ...keys,
    scope: scopeOf(request, keys, customerIdOf),
    after: route.access === 'public' ? null : positionOf(request.raw),
    address: exchange.address,
    headers: request.headers,
    raw: request.body?.raw ?? noBytes,
    log,
    clientGone: () => clientGoneSignal(exchange),
  }) as Promise<Answer>
}

/** A route for accounts must declare how it treats a reseller's customers. */
const requireCustomerUse = ({ access, customer, operationId }: Route): void => {
  if (access !== 'public' && access !== 'finance' && customer === undefined)
    throw new Error(`${operationId} does not say what a reseller's customer is to it`)
}

/**
 * Compiles the checks of a route.
 * @throws Error if a route for accounts does not declare `customer`
 */
export const compileRoute = (route: Route, customerIdOf: CustomerIdOf): CompiledRoute => {
  requireCustomerUse(route)
  const body = route.body ?? noBody
  const checks: Checks = {
    body: shapeCheck(body, 'body', route.codes?.body),
    unread: withExpectedShape(body),
    query: shapeCheck(querySchemaOf(route), 'query', route.codes?.query),
    refusesCustomer: route.customer !== undefined && !hasCustomer(route),
    params: route.params ?? null,
  }
  return {
    route,
    unread: checks.unread,
    run: (request, log) => run(route, checks, customerIdOf, request, log),
  }
}

const printableAscii = /^[\x20-\x7e]{1,255}$/

/**
 * Headers that identify the service and the client. If one is repeated, a proxy and this service may use different
 * values, so the request is refused.
 */
const sentOnce: ReadonlySet<string> = new Set(['host', 'authorization', 'x-api-key'])

/** @throws invalid_parameter if one of them is repeated, even with the same value */
export const checkSentOnce = ({ rawHeaders }: IncomingMessage): void => {
  const seenNames: string[] = []
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = (rawHeaders[at] ?? '').toLowerCase()
    if (!sentOnce.has(name)) continue
    if (seenNames.includes(name))
      throw refuse('invalid_parameter', `this is not a valid request: it has the header ${name} twice`)
    seenNames.push(name)
  }
}

/** Node joins repeated headers with a comma. A key that is sent twice is two keys, not one. */
const single = (request: IncomingMessage, name: string): string | undefined | null => {
  const value = request.headers[name]
  if (value === undefined) return undefined
  if (typeof value !== 'string') return null
  return value.includes(', ') && (request.headersDistinct[name]?.length ?? 0) > 1 ? null : value
}

/**
 * `Idempotency-Key`: 1 to 255 printable ASCII characters, or null when left out.
 * @throws invalid_idempotency_key
 */
const idempotencyKeyOf = (request: IncomingMessage): string | null => {
  const value = single(request, 'idempotency-key')
  if (value === undefined) return null
  if (value === null || !printableAscii.test(value))
    throw refuse(
      'invalid_idempotency_key',
      'Idempotency-Key must be 1 to 255 printable ASCII characters, sent once',
    )
  return value
}

/** Node reads header bytes as Latin-1. A reseller's own id may be any UTF-8. */
const asUtf8 = (value: string): string | null => {
  const bytes = Buffer.from(value, 'latin1')
  return isUtf8(bytes) ? bytes.toString('utf8') : null
}

const badCustomer = (source: string) =>
  refuse('invalid_customer_id', `${source} must be ${externalIdForm}, sent once`)

/**
 * `X-Reseller-Customer-Id`: 1 to 128 printable characters, or null when left out.
 * @throws invalid_customer_id
 */
const customerRefOf = (request: IncomingMessage): string | null => {
  const value = single(request, 'x-reseller-customer-id')
  if (value === undefined) return null
  const text = value === null ? null : asUtf8(value)
  const ref = text === null ? null : parseExternalId(text)
  if (ref === null) throw badCustomer('X-Reseller-Customer-Id')
  return ref
}

/**
 * The customer of the query's `customer_id`, with the same meaning as the header, or null when left out.
 * @throws invalid_customer_id
 */
const customerQueryOf = (query: unknown): string | null => {
  const value = (query as Readonly<Record<string, unknown>>).customer_id
  if (value === undefined) return null
  const ref = typeof value === 'string' ? parseExternalId(value) : null
  if (ref === null) throw badCustomer('customer_id')
  return ref
}

/**
 * `X-Farebox-Position`: the position of a write that the client wants to read, or null when left out.
 * @throws invalid_parameter
 */
export const positionOf = (request: IncomingMessage): number | null => {
  const value = request.headers['x-farebox-position']
  if (value === undefined) return null
  const position = typeof value === 'string' ? parsePosition(value) : null
  if (position === null)
    throw refuse('invalid_parameter', `X-Farebox-Position must be ${positionForm}, as an answer carried it`)
  return position
}
