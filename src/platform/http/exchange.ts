import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import type { AccountId } from '../../kernel/ids.ts'
import type { Caller, FinanceCaller } from './auth.ts'
import type { ErrorCode } from './error-table.ts'
import type { ApiError } from './errors.ts'
import type { ParsedJson } from './json.ts'
import type { Connection } from './node-server.ts'
import type { Answer, Route } from './route.ts'

/** A route with its checks made ready, so that a request only runs them. */
export type CompiledRoute = {
  readonly route: Route
  /** The refusal of a body that is no JSON as this route answers it: `invalid_body` shows the expected shape. */
  unread(refusal: ApiError): ApiError
  /**
   * The checks from the body's shape on, then the handler. `log` makes the request's own logger when it is asked for.
   * @throws ApiError, or whatever the handler throws
   */
  run(request: HttpRequest, log: () => Logger): Promise<Answer>
}

/** What is known of one request on its way through the checks. */
export type Exchange = {
  readonly requestId: string
  /** Milliseconds of the monotonic clock. */
  readonly startedMs: number
  readonly address: string
  readonly connection: Connection
  /** Null when no route has the path and method. */
  readonly route: CompiledRoute | null
  caller: Caller | null
  /** Who reads the books, on a route of finance. */
  reader: FinanceCaller | null
  /** The code that was answered, for the log. */
  code: ErrorCode | null
  /** Whether it is counted among the requests in work. */
  hasPlace: boolean
  /** The account that it is counted for among them. */
  countedFor: AccountId | null
  /** Whether a handler is at work for it. */
  atWork: boolean
  /** The longest that it held the main thread in one go, milliseconds. */
  eventLoopDelayMs: number
  /** Whether its end was logged and measured. */
  ended: boolean
  /** Made for a handler that asks whether its client is still there. */
  gone: AbortController | null
}

/** Aborted when the client of the request has left, or has its answer. */
export const clientGoneSignal = (exchange: Exchange): AbortSignal => {
  exchange.gone ??= new AbortController()
  if (exchange.ended) exchange.gone.abort()
  return exchange.gone.signal
}

declare module 'fastify' {
  interface FastifyRequest {
    exchange: Exchange
  }
  interface FastifyContextConfig {
    compiled?: CompiledRoute
  }
}

export type HttpRequest = FastifyRequest<{ Body: ParsedJson | undefined }>
export type HttpReply = FastifyReply
