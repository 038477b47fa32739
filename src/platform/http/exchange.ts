import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import type { AccountId } from '../../kernel/ids.ts'
import type { Caller, FinanceCaller } from './auth.ts'
import type { Connection } from './connections.ts'
import type { ApiError, ErrorCode } from './errors.ts'
import type { Answer, Route } from './route.ts'

export type HttpRequest = FastifyRequest<{ Body: ParsedJson | undefined }>
export type HttpReply = FastifyReply

/** A parsed body. `overflowing`: it has a number outside the range of a double (1e999), which schemas refuse. */
export type ParsedJson = {
  readonly value: unknown
  readonly overflowing: boolean
  /** The received bytes, unparsed; only on routes with `rawBody` or `form`. */
  readonly raw?: Buffer
}

/** A route whose checks are compiled. */
export type CompiledRoute = {
  readonly route: Route
  /** Completes the refusal of a body that is not JSON: on this route, `invalid_body` shows the expected shape. */
  unread(refusal: ApiError): ApiError
  /**
   * Runs the checks from the body's shape on, then the handler. `log` creates the request's own logger on demand.
   * @throws ApiError, or any error of the handler
   */
  run(request: HttpRequest, log: () => Logger): Promise<Answer>
}

/** The state of one request during the checks and the handler. */
export type Exchange = {
  readonly requestId: string
  /** Milliseconds of the monotonic clock. */
  readonly startedMs: number
  readonly address: string
  readonly connection: Connection
  /** Null when no route has the path and method. */
  readonly route: CompiledRoute | null
  caller: Caller | null
  /** The caller on a finance route. */
  reader: FinanceCaller | null
  /** The answered error code, for the log. */
  code: ErrorCode | null
  /** Whether it has a slot among the requests in progress. */
  hasPlace: boolean
  /** The account whose requests in progress include it. */
  countedFor: AccountId | null
  /** Whether a handler runs for it. */
  atWork: boolean
  /** The longest time that it blocked the main thread at once, milliseconds. */
  eventLoopDelayMs: number
  /** Whether its end was logged and measured. */
  ended: boolean
  /** Created for a handler that checks whether its client is still connected. */
  gone: AbortController | null
}

/** Aborted when the client of the request has disconnected, or has its answer. */
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
