import { createHash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { gzipSync } from 'node:zlib'
import { positionToken } from '../../kernel/log-position.ts'
import { type ApiError, errorBody } from './errors.ts'
import type { HttpReply } from './exchange.ts'
import { JsonBytes, jsonText } from './json-bytes.ts'
import type { Answer, Route } from './route.ts'

/**
 * Headers of every answer. The policy forbids everything: an API answer is never a page (the docs page sets its own).
 */
export const securityHeaders = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
} as const

/**
 * A page of any origin may read these answers and their headers. They do not depend on the client, so no credentials
 * are needed.
 */
export const corsHeaders = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers': '*',
} as const

const json = 'application/json; charset=utf-8'

/** The headers of every answer, with any status. */
export const baseHeaders = (requestId: string): Readonly<Record<string, string>> => ({
  'x-request-id': requestId,
  ...securityHeaders,
})

const ownHeaders = (reply: HttpReply, route: Route | null, answer: Answer): void => {
  if (route?.cors) reply.headers(corsHeaders)
  if (typeof answer.position === 'number') reply.header('x-farebox-position', positionToken(answer.position))
  if (answer.headers !== undefined) reply.headers(answer.headers as Record<string, string | string[]>)
}

const jsonOf = (body: unknown): Buffer | string => (body instanceof JsonBytes ? body.bytes : jsonText(body))

/** Sends an answer: JSON, or its text under the media type that the route declares. */
export const sendAnswer = (reply: HttpReply, requestId: string, route: Route, answer: Answer): void => {
  reply.code(answer.status).headers(baseHeaders(requestId))
  ownHeaders(reply, route, answer)
  if ('text' in answer) {
    const mediaType =
      ('mediaType' in answer ? answer.mediaType : undefined) ??
      route.responses[answer.status]?.text?.mediaType ??
      'text/plain'
    reply.header('content-type', `${mediaType}; charset=utf-8`).send(answer.text)
  } else if (answer.body === undefined) reply.send()
  else reply.header('content-type', json).send(jsonOf(answer.body))
}

/** A refusal as a page for people, with its additional headers. */
export type RefusalPage = {
  readonly html: string
  readonly headers: Readonly<Record<string, string | readonly string[]>>
}

/** Sends a refusal as a page. */
export const sendRefusalPage = (
  reply: HttpReply,
  requestId: string,
  error: ApiError,
  { html, headers }: RefusalPage,
): void => {
  reply.code(error.status).headers(baseHeaders(requestId))
  if (error.headers !== undefined) reply.headers(error.headers)
  reply.headers(headers as Record<string, string | string[]>)
  reply.header('content-type', 'text/html; charset=utf-8').send(html)
}

/** Sends a refusal in the one form of errors (docs/http-api.md, "Errors"). */
export const sendRefusal = (
  reply: HttpReply,
  requestId: string,
  route: Route | null,
  error: ApiError,
): void => {
  reply.code(error.status).headers(baseHeaders(requestId))
  if (route?.cors) reply.headers(corsHeaders)
  if (error.headers !== undefined) reply.headers(error.headers)
  reply.header('content-type', json).send(errorBody(error, requestId))
}

/** The members of a list in a header, without what follows a semicolon. */
const members = (header: string | undefined): readonly (readonly [name: string, parameters: string])[] =>
  (header ?? '').split(',').map((member) => {
    const [name = '', ...parameters] = member.split(';')
    return [name.trim(), parameters.join(';').replaceAll(' ', '')]
  })

/** RFC 9110, 12.5.3: a weight of 0 means "not acceptable". */
const takesGzip = (header: string | string[] | undefined): boolean =>
  members(String(header ?? '')).some(
    ([name, parameters]) => name.toLowerCase() === 'gzip' && !/^q=0(\.0*)?$/i.test(parameters),
  )

/** A weak tag, because it is the same for every encoding of the text. */
export const etagOf = (text: string): string =>
  `W/"${createHash('sha256').update(text).digest('base64url').slice(0, 22)}"`

/** Whether the client already has the content of this tag (RFC 9110, 13.1.2). */
export const matchesEtag = (headers: IncomingHttpHeaders, etag: string): boolean =>
  members(headers['if-none-match']).some(([name]) => {
    const tag = name.replace(/^(?!W\/)/, 'W/')
    return tag === etag || tag === 'W/*'
  })

/**
 * A text that is the same for every client until the process ends. Caches must revalidate it each time, and receive 304
 * if their copy is current (RFC 9110, 13.1.2). It is compressed once, for clients that accept gzip.
 */
export const fixedText = (text: string) => {
  const etag = etagOf(text)
  const common = { etag, 'cache-control': 'no-cache', vary: 'accept-encoding' }
  let packed: Buffer | null = null

  return (headers: IncomingHttpHeaders) => {
    if (matchesEtag(headers, etag)) return { status: 304, headers: common } as const
    if (!takesGzip(headers['accept-encoding'])) return { status: 200, text, headers: common } as const
    packed ??= gzipSync(text, { level: 9 })
    return { status: 200, text: packed, headers: { ...common, 'content-encoding': 'gzip' } } as const
  }
}
