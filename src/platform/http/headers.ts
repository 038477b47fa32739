import { isUtf8 } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import { z } from 'zod'
import { externalIdForm, parseExternalId } from '../../kernel/external-id.ts'
import { newId } from '../../kernel/ids.ts'
import { parsePosition, positionForm } from '../../kernel/log-position.ts'
import { refuse } from './errors.ts'

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
export const idempotencyKeyOf = (request: IncomingMessage): string | null => {
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
export const customerRefOf = (request: IncomingMessage): string | null => {
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
export const customerQueryOf = (query: unknown): string | null => {
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

/** A position in an answer: opaque text (`positionToken`). */
export const positionField = (description: string) =>
  z.string().meta({ description: `${description} Opaque: send it back as it came.` })

const accepted = /^[A-Za-z0-9._:-]{1,128}$/
/**
 * Request ids are logged and stored in events. A value that looks like an API key was sent by mistake and must not be
 * used.
 */
const keyLike = /fbx_/i
const printable = /^[\x20-\x7e]{1,128}$/

/** A new request id, e.g. `req_0199…`. */
export const newRequestId = (): string => newId('req')

/** The client's `X-Request-Id` if it has the safe form, else a new one (docs/http-api.md, "Requests"). */
export const requestIdFrom = (header: string | undefined): string =>
  header !== undefined && accepted.test(header) && !keyLike.test(header) ? header : newRequestId()

/**
 * The request id of a scraper call, which is its idempotency key. The header is used unchanged or refused, never
 * silently replaced. Without the header it is a new id. Null if the header is not 1 to 128 printable ASCII characters,
 * or if it looks like an API key.
 */
export const requestIdAsKey = (header: string | undefined): string | null => {
  if (header === undefined) return newRequestId()
  return printable.test(header) && !keyLike.test(header) ? header : null
}
