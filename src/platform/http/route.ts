import type { IncomingHttpHeaders } from 'node:http'
import type { Readable } from 'node:stream'
import type { Logger } from 'pino'
import type { z } from 'zod'
import type { AccountId } from '../../kernel/ids.ts'
import type { AccountScope as Scope } from '../../kernel/scopes.ts'
import type { Caller, FinanceCaller } from './auth.ts'
import type { ErrorCode } from './errors.ts'
import { type ApiError, refuse } from './errors.ts'
import type { RouteLimit } from './rate-limiter.ts'

/**
 * Who may call the operation: everybody without a key, any valid key, a key with the scope (docs/reference/api.md,
 * "Authentication"), or a finance token, which is not an API key.
 */
export type Access = 'public' | 'any-key' | 'buy' | 'scrape' | 'finance'

/** The groups of the interface description. */
export type Tag =
  | 'Account'
  | 'Catalog'
  | 'Orders'
  | 'Plans'
  | 'Proxies'
  | 'Finance'
  | 'Service'
  | (string & {})

/**
 * The error code of a field, in place of `invalid_body` (in a query `invalid_parameter`): one code for every case, or
 * one code per case.
 * - `missing`: left out or null.
 * - `type`: another JSON type.
 * - `value`: the right type with a bad value, or with a bad value inside.
 * - `unknown`: a field inside that is not accepted (default `unknown_field`).
 */
export type FieldCode =
  | ErrorCode
  | {
      readonly missing?: ErrorCode
      readonly type?: ErrorCode
      readonly value?: ErrorCode
      readonly unknown?: ErrorCode
    }

/** By dotted path, e.g. `{ product_id: { missing: 'missing_product' }, 'fulfillment_meta.country': 'invalid_country' }`. */
export type FieldCodes = Readonly<Record<string, FieldCode>>

/** A successful answer: its schema and one example of it. */
export type ResponseDeclaration<Body extends z.ZodType = z.ZodType> = {
  readonly description: string
  /** Left out: the answer has no JSON body. */
  readonly body?: Body
  readonly example?: unknown
  /** The media type and an example of the plain answer, if there is one in addition to JSON or in place of it. */
  readonly text?: { readonly mediaType: string; readonly example: string }
  /** Headers that this answer may have in addition to those of every answer, with their descriptions. */
  readonly headers?: Readonly<Record<string, string>> | undefined
}
export type Responses = Readonly<Record<number, ResponseDeclaration>>

/** A code that the operation can return. `message` replaces the example's text, `extra` the example's extra fields. */
export type RouteError =
  | ErrorCode
  | {
      readonly code: ErrorCode
      readonly message?: string
      readonly extra?: Readonly<Record<string, unknown>>
    }

/**
 * How an operation treats a reseller's customer. The header `X-Reseller-Customer-Id` or the query's `customer_id` names
 * the customer. Only a reseller key may name one.
 * - `pays`: the operation is for the customer, whose credit pays.
 * - `limits`: the operation reads and changes only that customer's data. All other data reads as absent.
 * - `unaffected`: the operation shows and changes no customer's data.
 * - `refused`: the operation concerns the account itself.
 */
type CustomerUse =
  | 'pays'
  | 'limits'
  | 'unaffected'
  | { readonly refused: ErrorCode; readonly message: string }

/** For data that belongs to the account alone. `subjectAndVerb` begins the message, e.g. "the wallet is". */
export const accountOnly = (subjectAndVerb: string): CustomerUse => ({
  refused: 'invalid_customer_id',
  message: `${subjectAndVerb} the account's own and no customer's: leave X-Reseller-Customer-Id out`,
})

/** The input of a handler. All values have passed the checks that run before the handler. */
export type ApiRequest<
  Params extends z.ZodType = z.ZodType,
  Query extends z.ZodType = z.ZodType,
  Body extends z.ZodType = z.ZodType,
  Entry extends Access = Access,
> = {
  readonly caller: Entry extends 'public' ? null : Entry extends 'finance' ? FinanceCaller : Caller
  /** Also the correlation id of every event that the request causes. */
  readonly requestId: string
  readonly params: z.output<Params>
  readonly query: z.output<Query>
  readonly body: z.output<Body>
  /** As sent, at most 255 printable ASCII characters; null if it was left out or the route does not read it. */
  readonly idempotencyKey: string | null
  /**
   * The owner of the data that the request reads and changes. Every query of account data must use the whole scope,
   * because a named customer limits all of them.
   */
  readonly scope: Entry extends 'public' | 'finance' ? null : Scope
  /** The reseller's own id of the customer of `scope`, else null. */
  readonly customerRef: string | null
  /** The log position that the client has seen, by its `X-Farebox-Position` header, else null. */
  readonly after: number | null
  /** The client's address, as reported by the trusted proxies. */
  readonly address: string
  readonly headers: IncomingHttpHeaders
  /** The received bytes of the body, on a route with `rawBody` or `form`; else empty. */
  readonly raw: Buffer
  /**
   * Creates the request's logger. It is not an accessor: V8 gives each object with its own accessor a hidden class,
   * which references the request until the old generation is collected.
   */
  readonly log: () => Logger
  /** Aborted when the client has disconnected or has its whole answer. Work for this request alone must stop then. */
  readonly clientGone: () => AbortSignal
}

type Frozen<T> = T extends readonly (infer Item)[]
  ? readonly Frozen<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: Frozen<T[Key]> }
    : T

type AnswerExtras = {
  /** A list is sent as several headers of the same name. */
  readonly headers?: Readonly<Record<string, string | readonly string[]>> | undefined
  /** The position of the last event that the request appended, sent as `X-Farebox-Position`. */
  readonly position?: number | null | undefined
}

/**
 * Sent unchanged, under the declared media type or under `mediaType`. A buffer is for encoded content. A stream is sent
 * piece by piece, and is destroyed when the client disconnects.
 */
type PlainText = { readonly text: string | Buffer | Readable; readonly mediaType?: string }

type BodyOf<Declaration> = Declaration extends { readonly body: infer Body extends z.ZodType }
  ?
      | { readonly body: Frozen<z.input<Body>> | JsonBytes<Frozen<z.input<Body>>> }
      | (Declaration extends { readonly text: object } ? PlainText : never)
  : Declaration extends { readonly text: object }
    ? PlainText
    : { readonly body?: undefined }

/** One of the declared answers. */
export type Answer<Declared extends Responses = Responses> = {
  [Status in keyof Declared & number]: { readonly status: Status } & BodyOf<Declared[Status]> & AnswerExtras
}[keyof Declared & number]

/**
 * How many requests may be in progress at once, in total and from one address. As many more may be sending their
 * bodies.
 */
export type ConcurrencyLimit = { readonly total: number; readonly perAddress: number }

/** An answer that is built before its request arrives. */
export type PrebuiltAnswer = {
  readonly mediaType: string
  /** One byte per character: no character is above U+00FF. */
  readonly text: string
  readonly etag: string
}

type RouteDefinition<
  Params extends z.ZodObject,
  Query extends z.ZodObject,
  Body extends z.ZodType,
  Declared extends Responses,
  Entry extends Access,
> = {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** In the form of OpenAPI, e.g. `/api/v1/orders/{id}`. */
  readonly path: string
  /** Must not change: client libraries are named after it. */
  readonly operationId: string
  /** A few words, without a full stop. */
  readonly summary: string
  /** Sentences; Markdown. */
  readonly description: string
  readonly tag: Tag
  readonly access: Entry
  /** True refuses blocked accounts. */
  readonly writes: boolean
  /** Strings as in the path. A value that does not match gives 404 `not_found`. */
  readonly params?: Params
  /**
   * `src/platform/http/query.ts` has the usual parts. Parameters that are not declared here are refused, or, on a hidden
   * route, ignored.
   */
  readonly query?: Query
  /** `z.strictObject` of JSON values. Left out: the request has no body, or `{}`. */
  readonly body?: Body
  /** Examples for the interface description, which requires `params` if the path has parameters. */
  readonly examples?: {
    readonly params?: z.input<Params>
    readonly query?: Readonly<Record<string, string | number | boolean>>
    readonly body?: Frozen<z.input<Body>>
  }
  readonly codes?: { readonly body?: FieldCodes; readonly query?: FieldCodes }
  /** Whether `Idempotency-Key` is read; `required-for-resellers` refuses a reseller key without one. */
  readonly idempotencyKey?: 'optional' | 'required-for-resellers'
  /**
   * Whether this account has an order (or a similar resource) under the key. Called only if the body fails at its
   * product, quantity or targeting: the check of a known key comes before those (docs/reference/api.md, "Order of
   * checks").
   */
  knownKey?(caller: Caller, idempotencyKey: string): Promise<boolean>
  /** Required for every operation with an API key. Without it, creating the server fails. */
  readonly customer?: CustomerUse
  /**
   * A scraper call: `X-Request-Id` or `Idempotency-Key` is its idempotency key and its request id. It is used unchanged
   * or refused as `bad_input`.
   */
  readonly requestIdIsKey?: true
  /** Whether the account has the result of this id. A repeat of it does not count against `limit`. */
  hasResult?(accountId: AccountId, callId: string): Promise<boolean>
  readonly responses: Declared
  /** Codes of the handler only. The framework's codes are added to the interface description automatically. */
  readonly errors: readonly RouteError[]
  /** Headers that refusals of the handler may have in addition to those of every answer, with their descriptions. */
  readonly errorHeaders?: Readonly<Record<string, string>>
  /** For operations with the same refusals: the interface description lists them once, under this name and status. */
  readonly errorsAs?: string
  readonly limit?: RouteLimit
  /** A page of any origin may read the answer (the keyless tools): `Access-Control-Allow-Origin: *`. */
  readonly cors?: true
  /** Left out of the interface description: pages for people, and endpoints for machines of the operator. */
  readonly hidden?: true
  /**
   * The body must have the JSON media type. It is passed on as bytes and not parsed, because its sender signed the
   * bytes.
   */
  readonly rawBody?: true
  /** The body is a form of a page (`application/x-www-form-urlencoded`) and is passed on as bytes. JSON is refused. */
  readonly form?: true
  /** Limits and load shedding do not apply. For probes. */
  readonly unlimited?: true
  /**
   * Its requests use separate concurrency slots. They do not count against the slots and limits of all other requests.
   */
  readonly atOnce?: ConcurrencyLimit
  /**
   * For a public GET with thousands of requests a second: the ready answer to this query, as written in the URL, or
   * null if none is ready. It equals the answer of the handler. `src/platform/http/answer.ts` defines when it is
   * called.
   */
  ready?(rawQuery: string): PrebuiltAnswer | null
  handler(request: ApiRequest<Params, Query, Body, Entry>): Promise<Answer<NoInfer<Declared>>>
}

// biome-ignore lint/suspicious/noExplicitAny: routes of many types are in one list; each was checked at its declaration
export type Route = RouteDefinition<any, any, any, any, any>

/** Whether a request may name a reseller's customer. */
export const hasCustomer = ({ customer }: Route): boolean => customer === 'pays' || customer === 'limits'

/**
 * Declares one operation. The framework (`src/platform/http/server.ts`) runs every check before the handler, in the
 * order of docs/reference/api.md: limit per address, 401, limit per key, `missing_scope`, `account_blocked`, 415 / 413,
 * shape of the body, `unsupported_method`, forms of the headers, `reseller_forbidden`, `idempotency_key_required`. If
 * the body fails at product, quantity or targeting, the known key is checked before those codes.
 *
 * A handler starts at "known key" with typed, checked values. It returns one of the declared answers, and throws
 * `refuse(code, message)` in all other cases. Any other error is a bug: 500 `internal_error`. `CommandOverload` and
 * `ReadsBehind` are answered as 503 with `Retry-After`.
 *
 * `src/features/orders/routes.ts` declares a complete one.
 */
export const route = <
  const Declared extends Responses,
  const Entry extends Access,
  Params extends z.ZodObject = z.ZodObject<Record<never, never>>,
  Query extends z.ZodObject = z.ZodObject<Record<never, never>>,
  Body extends z.ZodType = z.ZodUndefined,
>(
  definition: RouteDefinition<Params, Query, Body, Declared, Entry> &
    (Entry extends 'public' | 'finance' ? unknown : { readonly customer: CustomerUse }),
): Route => definition

/** A JSON body that is already serialized and is sent unchanged. `Body` is the type of the serialized value. */
export class JsonBytes<Body> {
  readonly bytes: Buffer
  /** Never set: it carries the type of the body. */
  declare readonly body: Body

  private constructor(bytes: Buffer) {
    this.bytes = bytes
  }

  static of<Body>(body: Body): JsonBytes<Body> {
    return new JsonBytes(Buffer.from(`${JSON.stringify(body)}\n`, 'utf8'))
  }

  /** Wraps bytes that an earlier `JsonBytes` contained. */
  static again<Body>(bytes: Buffer): JsonBytes<Body> {
    return new JsonBytes(bytes)
  }
}

/** Headers of the first answer to a request with an `Idempotency-Key`, and of the answer to its retry. */
export const keyHeaders = {
  'Idempotency-Key':
    'The idempotency key of the request: the key of the client, or a key that the server created',
}
export const replayHeaders = { 'Idempotency-Replayed': '`true`: this is the answer to an earlier request' }

/** The result of a request with an idempotency key. */
export type IdempotentResult = {
  /** The resource of the key existed already. */
  readonly replayed: boolean
  readonly idempotencyKey: string
  /**
   * A read from this position shows the resource. It is set for a replay too: the client may have lost the first
   * answer.
   */
  readonly position: number | null
}

/** The refusal of a key that was used with a different request. */
export const keyConflict = (): ApiError =>
  refuse(
    'idempotency_conflict',
    'This Idempotency-Key was already used with a different request. Use a new key.',
  )

/**
 * The two declared answers of a route that uses `idempotentAnswer`. `created` and `existing` are their descriptions. Both
 * have the same `example`.
 */
export const idempotentResponses = <Body extends z.ZodType>(
  body: Body,
  example: unknown,
  { created, existing }: { readonly created: string; readonly existing: string },
) => ({
  201: { description: created, body, example, headers: keyHeaders },
  200: { description: existing, body, example, headers: replayHeaders },
})
