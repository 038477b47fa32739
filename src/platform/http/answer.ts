import { positionToken } from '../../terms/position.ts'
import type { ApiError } from './errors.ts'
import { errorBody } from './errors.ts'
import type { HttpReply } from './exchange.ts'
import { JsonBytes, jsonText } from './json-bytes.ts'
import type { Answer, Route } from './route.ts'

/** On every answer. The policy forbids everything: an API answer is never a page (the docs page sets its own). */
export const securityHeaders = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
} as const

const json = 'application/json; charset=utf-8'

/** The headers that every answer carries, whatever becomes of the request. */
export const baseHeaders = (requestId: string): Readonly<Record<string, string>> => ({
  'x-request-id': requestId,
  ...securityHeaders,
})

const ownHeaders = (reply: HttpReply, route: Route | null, answer: Answer): void => {
  if (route?.cors) reply.header('access-control-allow-origin', '*')
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

/** A refusal as a page for people, with the headers that it needs beside those of every answer. */
export type RefusalPage = {
  readonly html: string
  readonly headers: Readonly<Record<string, string | readonly string[]>>
}

/** Sends a refusal to somebody who looks at pages. */
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
  if (route?.cors) reply.header('access-control-allow-origin', '*')
  if (error.headers !== undefined) reply.headers(error.headers)
  reply.header('content-type', json).send(errorBody(error, requestId))
}
