import { z } from 'zod'

/** A refusal for the client. Handlers and the framework throw it, and `src/platform/http/server.ts` answers it. */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly code: ErrorCode
  readonly status: number
  /** Fields of the body in addition to `error`, `code` and `requestId`. */
  readonly extra: Readonly<Record<string, unknown>> | undefined
  readonly headers: Readonly<Record<string, string>> | undefined

  constructor(
    code: ErrorCode,
    message: string,
    extra?: Readonly<Record<string, unknown>>,
    headers?: Readonly<Record<string, string>>,
  ) {
    super(message)
    this.code = code
    this.status = errorEntry(code).status
    this.extra = extra
    this.headers = headers
  }
}

type ExtraArguments<Code extends ErrorCode> = [ErrorExtra<Code>] extends [never]
  ? []
  : Record<never, never> extends ErrorExtra<Code>
    ? [extra?: ErrorExtra<Code>]
    : [extra: ErrorExtra<Code>]

/**
 * Creates the refusal with this code, to be thrown: `throw refuse('not_found', 'no such order')`. The status comes from
 * the error table. The types require the fields that docs/http-api.md gives for the code. The message is for people: it
 * names the field and the accepted set, starts in lower case and has no full stop.
 */
export const refuse = <Code extends ErrorCode>(
  code: Code,
  message: string,
  ...[extra]: ExtraArguments<Code>
): ApiError => new ApiError(code, message, extra as Readonly<Record<string, unknown>> | undefined)

/** The refusal of a path that the service does not have. */
export const refuseUnknownPath = (): ApiError =>
  refuse('not_found', 'nothing has this path; /docs shows what there is')

export const unsupportedMediaType = (): ApiError =>
  refuse(
    'unsupported_media_type',
    'the body must be sent as Content-Type: application/json in UTF-8, without a Content-Encoding',
  )

/** A refusal with a `Retry-After` header: `retryAfterS` seconds, rounded up, at least 1. */
export const refuseWithRetryAfter = (
  code: 'rate_limited' | 'overloaded' | 'gateway_unavailable',
  message: string,
  retryAfterS: number,
): ApiError => new ApiError(code, message, undefined, { 'retry-after': retryAfterHeader(retryAfterS) })

/** Whole seconds, rounded up, at least 1 (docs/http-api.md, "Errors"). */
const retryAfterHeader = (seconds: number): string => String(Math.max(1, Math.ceil(seconds)))

/** What a client should do after a refusal: retry later, change the request first, or give up. */
export type Retry = 'later' | 'after-change' | 'never'

type ErrorEntry = {
  readonly status: number
  /** The meaning and the remedy, one or two sentences: the text of the docs page. */
  readonly help: string
  readonly retry: Retry
  /** Fields of the body in addition to `error`, `code` and `requestId`. */
  readonly extra?: z.ZodObject
  /** The example of those fields. */
  readonly example?: Readonly<Record<string, unknown>>
}

const entry = <const Entry extends ErrorEntry>(value: Entry): Entry => value

const change = (help: string) => entry({ status: 400, retry: 'after-change', help })

const cents = z.int()

/**
 * Every error code of the API with its status: docs/http-api.md, "Errors". The OpenAPI document and the docs page are
 * generated from it. A code is never renamed or reused.
 */
const errorTable = {
  unauthorized: entry({
    status: 401,
    retry: 'after-change',
    help: 'No key, a key that is unknown, revoked or expired, one that is not for use from this address, or two different keys in the two headers. Send one valid key as X-API-Key or as Authorization: Bearer.',
  }),
  missing_scope: entry({
    status: 403,
    retry: 'after-change',
    help: 'The key does not carry the scope that this operation needs. Use a key that has it.',
  }),
  account_blocked: entry({
    status: 403,
    retry: 'never',
    help: 'The account may read but not transact. Contact the operator.',
  }),
  reseller_forbidden: entry({
    status: 403,
    retry: 'after-change',
    help: 'X-Reseller-Customer-Id or customer_id, or an operation for resellers, with a key that is no reseller key.',
  }),
  deposits_not_available: entry({
    status: 403,
    retry: 'after-change',
    help: 'No live payment gateway serves the requested method. Choose another method, or pay from the wallet.',
  }),

  unknown_field: change(
    'The body has a field that this operation does not read. The message names it and lists the accepted fields; nothing was charged.',
  ),
  invalid_body: change(
    'The body is not valid JSON, or a field is missing or has the wrong type. The message names the field and shows the expected shape.',
  ),
  invalid_parameter: change(
    'A query or path parameter has a value outside the accepted set, which the message names.',
  ),
  missing_product: change('The body has no product_id. Send the id of a product of GET /api/v1/products.'),
  unknown_product: change('No product has this id. Read the ids with GET /api/v1/products.'),
  invalid_quantity: change(
    'The quantity is missing, not a whole number, or outside minQuantity and maxQuantity of the product. Fractions are refused, not rounded.',
  ),
  invalid_targeting: change(
    'The targeting does not fit the product: an unknown field or value, or targeting on a product that takes none.',
  ),
  invalid_country: change('The country is missing or not one that this product can be ordered in.'),
  invalid_period: change('The period is missing or not one that this product is rented for.'),
  invalid_amount: change(
    'The amount is missing, not a whole number of cents, not above 0, or above 500,000.',
  ),
  unsupported_method: change('The payment method is not offered here. The message names the whole list.'),
  invalid_limit: change(
    'The page size is not a whole number of 1 or more. Sizes above the maximum are capped, not refused.',
  ),
  invalid_offset: change('The offset is not a whole number of 0 or more.'),
  invalid_idempotency_key: change('Idempotency-Key must be 1 to 255 printable ASCII characters.'),
  idempotency_key_required: change('A reseller key must send an Idempotency-Key with this operation.'),
  invalid_customer_id: change(
    "X-Reseller-Customer-Id, or customer_id in the query, must be 1 to 128 printable characters. Or the two name different customers; or the resource is the account's own and not a customer's; or a customer's plan or address is to be paid for and the customer is not named. The message says which.",
  ),
  no_price_list: change(
    'Products sold per GB or per speed tier have no price list. Ask GET /api/v1/products/{id}/price.',
  ),
  no_options: change(
    'Gateway products have no options: the country is chosen when lines are generated from the plan.',
  ),
  invalid_count: change(
    'count must be a whole number from 1 to 5000 and at most generate.maxCount of the plan.',
  ),
  invalid_sticky: change('stickyMinutes must be a whole number of minutes, 0 or more.'),
  invalid_asn: change('asn must be a whole AS number.'),
  invalid_os: change('os must be one of windows, android, ios, mac.'),
  invalid_strict: change('strict must be true or false.'),
  invalid_udp: change('udp must be true or false.'),
  invalid_exclude: change('An exclude list is longer than 20 entries or has a malformed entry.'),
  invalid_events: change(
    'events must be distinct names of webhook events, at least one; leave it out for all.',
  ),
  invalid_url: change('The URL is not https, or its host is private or internal.'),
  invalid_ip: change('The value is not an IPv4 or IPv6 address.'),
  subscription_not_available: change(
    'The product is not sold by subscription at this interval, or the request names a customer: the wallet of the account pays a subscription. Order for a customer with POST /api/v1/orders.',
  ),
  bad_input: entry({
    status: 400,
    retry: 'after-change',
    help: 'The scraper rejected the parameters; details names the bad field. Not billed.',
    extra: z.object({ details: z.string().optional() }),
    example: { details: 'handle' },
  }),

  insufficient_balance: entry({
    status: 402,
    retry: 'after-change',
    help: 'The wallet is short by shortfallCents. Nothing was charged; after a top-up the same request, with the same Idempotency-Key, goes through.',
    extra: z.object({ balanceCents: cents, amountCents: cents, shortfallCents: cents }),
    example: { balanceCents: 120, amountCents: 1250, shortfallCents: 1130 },
  }),
  spend_cap_reached: entry({
    status: 402,
    retry: 'later',
    help: 'The order would take this key over its daily spend cap, measured over the last 24 hours. Nothing was charged.',
    extra: z.object({ capCents: cents, spentCents: cents, amountCents: cents }),
    example: { capCents: 5000, spentCents: 4500, amountCents: 1250 },
  }),
  customer_credit_insufficient: entry({
    status: 402,
    retry: 'after-change',
    help: "The named customer's credit is short by shortfallCents; nothing was charged. When the method is a rail with a live gateway of the reseller, payUrl takes chargeCents, and the payment places the order under the same Idempotency-Key, once. A retry before that gives the same pay page. Without a pay page (no method, no live gateway, more than $5,000) the customer needs credit first.",
    extra: z.object({
      shortfallCents: cents.meta({ description: 'What the credit is short of.' }),
      payUrl: z
        .string()
        .optional()
        .meta({ description: "Where the customer pays it; under the reseller's merchant name." }),
      depositId: z
        .string()
        .optional()
        .meta({ description: 'The deposit behind the pay page; it reads `for_order: true`.' }),
      chargeCents: cents.optional().meta({
        description:
          "The shortfall raised to the rail's minimum: $10 for card, $3 for crypto. What is over stays as credit.",
      }),
    }),
    example: {
      shortfallCents: 450,
      payUrl: 'https://checkout.stripe.com/c/pay/cs_live_a1',
      depositId: 'dep_0190d0a2c1d27f0e8f6e5c4b3a291807',
      chargeCents: 1000,
    },
  }),

  not_found: entry({
    status: 404,
    retry: 'never',
    help: 'Nothing by this id or path exists, or it belongs to another account, or not to the customer that the request names: the cases read alike.',
  }),
  unknown_scraper: entry({
    status: 404,
    retry: 'never',
    help: 'No scraper has this platform and operation.',
  }),
  target_not_found: entry({
    status: 404,
    retry: 'never',
    help: 'The profile, post or id does not exist. Billed: the answer is the result.',
  }),
  target_restricted: entry({
    status: 403,
    retry: 'never',
    help: 'The target is age-gated, region-locked or for logged-in users only. Not billed.',
  }),

  method_not_allowed: entry({
    status: 405,
    retry: 'after-change',
    help: 'The path exists but not with this method. The Allow header lists those it has.',
  }),

  price_changed: entry({
    status: 409,
    retry: 'after-change',
    help: 'expected_amount_cents is no longer the price; the body carries the current one. Nothing was charged.',
    extra: z.object({ amountCents: cents, unitPriceCents: cents, quantity: z.int() }),
    example: { amountCents: 1250, unitPriceCents: 250, quantity: 5 },
  }),
  product_unavailable: entry({
    status: 409,
    retry: 'later',
    help: 'The product is parked or retired. A retired product names its successorId.',
    extra: z.object({ successorId: z.string().nullable().optional() }),
    example: { successorId: 'residential-premium' },
  }),
  out_of_stock: entry({
    status: 409,
    retry: 'later',
    help: 'Fewer addresses are free than were ordered: `availableQuantity` are, for this product, country and, of mobile products, carrier and service. Nothing was charged; GET /api/v1/products/{id}/options shows what is in stock. Without the field, what was to be extended has ended, or no address is free that could replace another.',
    extra: z.object({ availableQuantity: z.int().min(0).optional() }),
    example: { availableQuantity: 3 },
  }),
  rental_ended: entry({
    status: 409,
    retry: 'never',
    help: 'The rental of this address has expired or was refunded: it can be neither checked nor replaced. Order a new address.',
  }),
  replacement_limit_reached: entry({
    status: 409,
    retry: 'later',
    help: 'The address of a rental is replaced once in 24 hours and three times in 30 days. The message says from when on it can be again; nothing was changed.',
  }),
  check_not_available: entry({
    status: 409,
    retry: 'never',
    help: 'This service has no target that a check of this address could ask: its operator sets FAREBOX_GATEWAY_CHECK_URL.',
  }),
  idempotency_conflict: entry({
    status: 409,
    retry: 'after-change',
    help: 'This idempotency key was used before with another request. Use a new key for a new request.',
  }),
  already_applied: entry({
    status: 409,
    retry: 'never',
    help: 'A credit with this reference landed before; nothing was moved.',
  }),
  webhook_limit_reached: entry({
    status: 409,
    retry: 'after-change',
    help: 'The account has ten active webhook endpoints, or a hundred with the disabled ones. Remove one first.',
  }),

  whitelist_limit_reached: entry({
    status: 409,
    retry: 'after-change',
    help: 'The account has 150 addresses on the whitelists of its plans. Take one off first. Nothing was added.',
  }),
  address_taken: entry({
    status: 409,
    retry: 'after-change',
    help: 'An address or network connects to one plan only, and this one is on the whitelist of another plan; nothing was added. Where `movable` is true it is a plan of yours: send it again with `move` true.',
    extra: z.object({ movable: z.boolean() }),
    example: { movable: true },
  }),

  result_expired: entry({
    status: 410,
    retry: 'after-change',
    help: 'A call with this X-Request-Id was made before, and results are stored for 24 hours only. Nothing was called or billed now; X-Billed says whether the call was then. Send a new X-Request-Id for a new call.',
  }),
  payload_too_large: entry({
    status: 413,
    retry: 'after-change',
    help: 'The body is above 256 KiB.',
  }),
  unsupported_media_type: entry({
    status: 415,
    retry: 'after-change',
    help: 'Bodies are JSON: send Content-Type: application/json in UTF-8, without a Content-Encoding.',
  }),
  rate_limited: entry({
    status: 429,
    retry: 'later',
    help: 'Too many requests from this key or address, or of this account at once. Wait for Retry-After seconds. A request that got 429 was never processed.',
  }),
  internal_error: entry({
    status: 500,
    retry: 'later',
    help: 'A fault of the service. Send the requestId to the operator; sending a write again with its Idempotency-Key is safe.',
  }),
  gateway_unavailable: entry({
    status: 502,
    retry: 'later',
    help: 'The payment gateway did not answer. Wait for Retry-After seconds and send the request again with the same Idempotency-Key.',
  }),
  provider_failed: entry({
    status: 502,
    retry: 'later',
    help: 'A transient failure while fetching from the platform. Not billed; retry with a short backoff.',
  }),
  overloaded: entry({
    status: 503,
    retry: 'later',
    help: 'The service cannot answer just now. Wait for Retry-After seconds; sending a write again with its Idempotency-Key converges on one result.',
  }),
  upstream_credits_exhausted: entry({
    status: 503,
    retry: 'later',
    help: 'A capacity problem on the service side. Not billed; retry shortly.',
  }),
  upstream_auth_rejected: entry({
    status: 503,
    retry: 'later',
    help: 'A problem on the service side. Not billed; retry shortly.',
  }),
  scraper_unavailable: entry({
    status: 503,
    retry: 'later',
    help: 'No provider serves this scraper just now: it was withdrawn, or none is configured. Not billed.',
  }),
} as const satisfies Readonly<Record<string, ErrorEntry>>

export type ErrorCode = keyof typeof errorTable

/** The fields that a code adds to the body; `never` for a code that adds none. */
type ErrorExtra<Code extends ErrorCode> = (typeof errorTable)[Code] extends {
  readonly extra: infer Schema extends z.ZodObject
}
  ? z.input<Schema>
  : never

/** The entry of a code, with the general type. */
export const errorEntry = (code: ErrorCode): ErrorEntry => errorTable[code]

export const errorCodes = Object.keys(errorTable) as readonly ErrorCode[]
