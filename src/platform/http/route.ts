import type { IncomingHttpHeaders } from 'node:http'
import type { Readable } from 'node:stream'
import type { Logger } from 'pino'
import type { z } from 'zod'
import type { AccountScope as Scope } from '../../kernel/scopes.ts'
import type { Caller, FinanceCaller } from './auth.ts'
import type { ErrorCode } from './error-table.ts'
import type { JsonBytes } from './json-bytes.ts'

/**
 * Who may call: everybody without a key, any valid key, a key with the scope (docs/http-api.md, "Authentication"), or a
 * finance token, which is no key.
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
 * The code of a field's refusals in place of `invalid_body` (`invalid_parameter` in a query): one for every case, or
 * one a case. `missing` is left out or null, `type` another JSON type, `value` the right type with a bad value or
 * something bad inside, `unknown` a field inside that is not accepted (else `unknown_field`).
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
  /** Left out: an answer without a JSON body. */
  readonly body?: Body
  readonly example?: unknown
  /** The media type and an example of the plain answer, where there is one beside or in place of JSON. */
  readonly text?: { readonly mediaType: string; readonly example: string }
  /** Headers that this answer may carry besides those of every answer, with their description. */
  readonly headers?: Readonly<Record<string, string>> | undefined
}
export type Responses = Readonly<Record<number, ResponseDeclaration>>

/** A code that the operation can give; `message` replaces the example's text, `extra` the example's extra fields. */
export type RouteError =
  | ErrorCode
  | {
      readonly code: ErrorCode
      readonly message?: string
      readonly extra?: Readonly<Record<string, unknown>>
    }

/**
 * What a reseller's customer is to an operation. The header `X-Reseller-Customer-Id` or the query's `customer_id` names
 * it, on a reseller key only. `pays`: it is for the customer, whose credit pays. `limits`: what is read or changed is
 * that customer's alone, the rest reads as absent. `unaffected`: it shows and changes nothing of any customer.
 * `refused`: what it is about is the account's own.
 */
export type CustomerUse =
  | 'pays'
  | 'limits'
  | 'unaffected'
  | { readonly refused: ErrorCode; readonly message: string }

/** For what belongs to the account alone: `what` as the subject of a sentence, e.g. "the wallet is". */
export const accountOnly = (what: string): CustomerUse => ({
  refused: 'invalid_customer_id',
  message: `${what} the account's own and no customer's: leave X-Reseller-Customer-Id out`,
})

/** What a handler gets. Every value in it has passed the checks that come before the handler. */
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
  /** As sent, 1 to 255 printable ASCII characters; null when it was left out or the route takes none. */
  readonly idempotencyKey: string | null
  /**
   * Whose things the request sees and changes. Every query of an account's things takes it whole: a customer who is
   * named limits them all.
   */
  readonly scope: Entry extends 'public' | 'finance' ? null : Scope
  /** The reseller's own id of the customer of `scope`, else null. */
  readonly customerRef: string | null
  /** The log position that the client says it has seen (`X-Farebox-Position`), else null. */
  readonly after: number | null
  /** The client's address, seen behind the trusted proxies. */
  readonly address: string
  readonly headers: IncomingHttpHeaders
  /** The body's bytes as they came, on a route with `rawBody` or `form`; else empty. */
  readonly raw: Buffer
  /**
   * Makes the request's own logger. Not an accessor: V8 gives each object with one of its own a hidden class, which then
   * holds the request until the old generation is collected.
   */
  readonly log: () => Logger
  /** Aborted when the client has left, or has its whole answer: what is done for this request alone is to stop then. */
  readonly clientGone: () => AbortSignal
}

type Frozen<T> = T extends readonly (infer Item)[]
  ? readonly Frozen<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: Frozen<T[Key]> }
    : T

type AnswerExtras = {
  /** A list is sent as that many headers of the name. */
  readonly headers?: Readonly<Record<string, string | readonly string[]>> | undefined
  /** The position of the last event that the request wrote: answered as `X-Farebox-Position`. */
  readonly position?: number | null | undefined
}

/**
 * Sent as it is, under the declared media type or the one that stands beside it. Bytes, where it is encoded; a stream, where
 * it comes bit by bit: it is destroyed when the client leaves.
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

/** How many requests may be in work at once, in all and from one address; and as many may have their bodies on the way. */
export type ConcurrencyLimit = { readonly total: number; readonly perAddress: number }

/** An answer that is there before it is asked for. */
export type PrebuiltAnswer = {
  readonly mediaType: string
  /** One byte a character: no character is above U+00FF. */
  readonly text: string
  readonly etag: string
}

/** Counts one request against a limit of its own, beside those per address and per key. */
export type RouteLimit = {
  readonly per: 'address' | 'account'
  /** Seconds to wait when the request is over the limit, else 0. */
  take(subject: string): number | Promise<number>
}

export type RouteDefinition<
  Params extends z.ZodObject,
  Query extends z.ZodObject,
  Body extends z.ZodType,
  Declared extends Responses,
  Entry extends Access,
> = {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** In the form of OpenAPI, e.g. `/api/v1/orders/{id}`. */
  readonly path: string
  /** Stable for ever: client libraries are named after it. */
  readonly operationId: string
  /** A few words, without a full stop. */
  readonly summary: string
  /** Sentences; Markdown. */
  readonly description: string
  readonly tag: Tag
  readonly access: Entry
  /** True refuses blocked accounts. */
  readonly writes: boolean
  /** Strings as they stand in the path. What does not fit is 404 `not_found`. */
  readonly params?: Params
  /** `src/platform/http/query.ts` has the usual parts. Parameters that are not in it are ignored. */
  readonly query?: Query
  /** `z.strictObject` of JSON values. Left out: the request has no body, or `{}`. */
  readonly body?: Body
  /** Examples for the interface description. `params` is required by it wherever the path has parameters. */
  readonly examples?: {
    readonly params?: z.input<Params>
    readonly query?: Readonly<Record<string, string | number | boolean>>
    readonly body?: Frozen<z.input<Body>>
  }
  readonly codes?: { readonly body?: FieldCodes; readonly query?: FieldCodes }
  /** Whether `Idempotency-Key` is read; `required-for-resellers` refuses a reseller key without one. */
  readonly idempotencyKey?: 'optional' | 'required-for-resellers'
  /**
   * Whether an order (or such) of this account stands under the key. Asked only when the body fails at its product,
   * quantity or targeting: the check of a known key comes before those (docs/http-api.md, "Order of checks").
   */
  knownKey?(caller: Caller, idempotencyKey: string): Promise<boolean>
  /** Every operation with an API key says it: a server with one that does not is not made. */
  readonly customer?: CustomerUse
  /** A scraper call: `X-Request-Id` is its idempotency key, taken as it is or refused as `bad_input`. */
  readonly requestIdIsKey?: true
  readonly responses: Declared
  /** Codes of the handler only; those that the framework gives are added to the interface description by itself. */
  readonly errors: readonly RouteError[]
  /** Many operations with the same refusals: they stand once in the interface description, under this name and status. */
  readonly errorsAs?: string
  readonly limit?: RouteLimit
  /** Any page may read the answer (the keyless tools): `Access-Control-Allow-Origin: *`. */
  readonly cors?: true
  /** Left out of the interface description: pages for people and machines of the operator. */
  readonly hidden?: true
  /** The body, JSON by its type, is handed on as bytes and not parsed: its sender signed them. */
  readonly rawBody?: true
  /** The body is a form of a page (`application/x-www-form-urlencoded`) and is handed on as bytes; JSON is refused. */
  readonly form?: true
  /** Neither limits nor load shedding stop it: probes. */
  readonly unlimited?: true
  /** Its requests have places of their own, and count neither among those of all others nor against their limits. */
  readonly atOnce?: ConcurrencyLimit
  /**
   * For a public GET that is asked thousands of times a second: the answer to this query, as it stands in the URL, where it
   * is ready, else null. It is what the handler would answer. `src/platform/http/ready-answers.ts` says when it is asked.
   */
  ready?(rawQuery: string): PrebuiltAnswer | null
  handler(request: ApiRequest<Params, Query, Body, Entry>): Promise<Answer<NoInfer<Declared>>>
}

// biome-ignore lint/suspicious/noExplicitAny: routes of many types stand in one list; each was checked where it was made
export type Route = RouteDefinition<any, any, any, any, any>

/**
 * Declares one operation. The framework (`src/platform/http/server.ts`) does everything that stands before the handler, in the
 * order that docs/http-api.md gives: limit per address, 401, limit per key, `missing_scope`, `account_blocked`, 415 /
 * 413, shape of the body, `unsupported_method`, forms of the headers, `reseller_forbidden`, `idempotency_key_required`;
 * then, when the body fails at product, quantity or targeting, the known key, then those codes. So a handler starts at
 * "known key" with typed, checked values, returns one of the declared answers, and throws `refuse(code, message)` for
 * everything else. What it throws besides is a bug: 500 `internal_error`. `CommandOverload` and `ReadsBehind` pass
 * through as 503 with `Retry-After`.
 *
 * @example
 * ```ts
 * const Order = z.object({ orderId: z.string(), quantity: z.int() }).meta({ id: 'Order' })
 *
 * export const orderRoutes = (orders: Orders): readonly Route[] => [
 *   route({
 *     method: 'POST',
 *     path: '/api/v1/orders',
 *     operationId: 'createOrder',
 *     summary: 'Place an order',
 *     description: 'Debits the wallet and returns the order.',
 *     tag: 'Orders',
 *     access: 'buy',
 *     writes: true,
 *     idempotencyKey: 'required-for-resellers',
 *     customer: 'pays',
 *     body: z.strictObject({
 *       product_id: z.string(),
 *       quantity: z.int().min(1),
 *       method: z.enum(['wallet', 'card']).optional(),
 *     }),
 *     codes: {
 *       body: {
 *         product_id: { missing: 'missing_product' },
 *         quantity: 'invalid_quantity',
 *         method: { value: 'unsupported_method' },
 *       },
 *     },
 *     examples: { body: { product_id: 'residential-premium', quantity: 5 } },
 *     responses: {
 *       201: { description: 'The order.', body: Order, example: { orderId: 'ord_01', quantity: 5 } },
 *       200: {
 *         description: 'The order that stands under this Idempotency-Key.',
 *         body: Order,
 *         example: { orderId: 'ord_01', quantity: 5 },
 *         headers: { 'Idempotency-Replayed': 'true' },
 *       },
 *     },
 *     errors: ['unknown_product', 'price_changed', { code: 'out_of_stock', message: '2 addresses are free' }],
 *     knownKey: (caller, key) => orders.has(caller.accountId, key),
 *     async handler({ caller, body, idempotencyKey, requestId }) {
 *       const placed = await orders.place({ caller, body, idempotencyKey, correlationId: requestId })
 *       if (placed.refused) throw refuse('unknown_product', `no product has the id ${body.product_id}`)
 *       return { status: 201, body: placed.order, position: placed.position }
 *     },
 *   }),
 * ]
 * ```
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
