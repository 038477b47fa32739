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
 * the error table. The types require the fields that docs/reference/api.md gives for the code. The message is for
 * people: it names the field and the accepted set, starts in lower case and has no full stop.
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

/** Whole seconds, rounded up, at least 1 (docs/reference/api.md, "Errors"). */
const retryAfterHeader = (seconds: number): string => String(Math.max(1, Math.ceil(seconds)))

/** What a client should do after a refusal: retry later, change the request first, or give up. */
export type Retry = 'later' | 'after-change' | 'never'

type ErrorEntry = {
  readonly status: number
  readonly meaning: string
  /** Left out: the meaning is the only cause. */
  readonly causes?: readonly string[]
  readonly remedy: string
  readonly retry: Retry
  /** Fields of the body in addition to `error`, `code` and `requestId`. */
  readonly extra?: z.ZodObject
  /** The example of those fields. */
  readonly example?: Readonly<Record<string, unknown>>
}

const entry = <const Entry extends ErrorEntry>(value: Entry): Entry => value

const change = (meaning: string, remedy: string, causes: readonly string[] = []) =>
  entry({ status: 400, retry: 'after-change', meaning, remedy, causes })

const cents = z.int()
const waitingOrderId = z
  .string()
  .optional()
  .meta({ description: 'The id of the order that waits under this key. Left out: no order exists yet.' })

const debtInShortfall = cents.optional().meta({
  description:
    'The debt after a refund or a dispute, which `shortfallCents` includes, because payments pay it first. Left out: there is no debt.',
})

/** The bill of a scraper call whose result has no data. */
const emptyResult = z.object({
  billing: z
    .object({
      priceUsd: z.string().meta({ description: 'The price of the scraper, in dollars with four decimals.' }),
      billed: z.boolean().meta({ description: 'True: the call was charged. A repeat has the same value.' }),
    })
    .meta({ id: 'ScrapeBilling' }),
  cached: z.boolean().meta({ description: 'True: this is an earlier answer, which is free.' }),
})

/**
 * Every error code of the API with its status: docs/reference/api.md, "Errors". The OpenAPI document and the docs page
 * are generated from it. A code is never renamed or reused.
 */
const errorTable = {
  unauthorized: entry({
    status: 401,
    retry: 'after-change',
    meaning: 'The request has no valid key.',
    causes: [
      'The request has no key.',
      'The key is unknown, revoked or expired.',
      'The key may not be used from this address.',
      'X-API-Key and Authorization carry different keys.',
      'An operation of /finance/v1 got an API key instead of a finance token.',
    ],
    remedy: 'Send one valid key as `X-API-Key` or as `Authorization: Bearer`.',
  }),
  missing_scope: entry({
    status: 403,
    retry: 'after-change',
    meaning: 'The key does not have the scope that this operation needs.',
    remedy: 'Use a key with this scope. The message names the scope.',
  }),
  capped_key: entry({
    status: 403,
    retry: 'after-change',
    meaning: 'The cap of this key covers everything, and the operation could cost more than the cap.',
    remedy: 'Use the console, or a key without such a cap.',
  }),
  account_blocked: entry({
    status: 403,
    retry: 'never',
    meaning: 'The account is blocked. It can read but cannot change anything.',
    remedy: 'Contact the operator.',
  }),
  reseller_forbidden: entry({
    status: 403,
    retry: 'after-change',
    meaning: 'The request is for resellers, and the key is not a reseller key.',
    causes: ['X-Reseller-Customer-Id or customer_id was sent.', 'The operation is for resellers only.'],
    remedy: 'Leave out the customer, or use a key of a reseller account.',
  }),
  prices_not_allowed: entry({
    status: 403,
    retry: 'after-change',
    meaning: 'Only operators set the prices of the customers of this reseller.',
    remedy: 'Ask the operator to set limits for your prices.',
  }),
  deposits_not_available: entry({
    status: 403,
    retry: 'after-change',
    meaning: 'No live payment gateway serves the requested method.',
    remedy: 'Choose another method, or pay from the wallet.',
  }),

  unknown_field: change(
    'The body has a field that this operation does not read. Nothing was charged.',
    'Remove the field. The message names it and lists the accepted fields.',
  ),
  invalid_body: change(
    'The body is not valid JSON, or a field is missing or has the wrong type.',
    'Correct the field that the message names. The message shows the expected shape.',
  ),
  invalid_parameter: change(
    'A query or path parameter has a value outside the accepted set.',
    'Use a value that the message names.',
  ),
  missing_product: change('The body has no product_id.', 'Send the id of a product of GET /api/v1/products.'),
  unknown_product: change('No product has this id.', 'Read the ids with GET /api/v1/products.'),
  invalid_quantity: change(
    'The quantity is missing, not a whole number, or outside minQuantity and maxQuantity of the product.',
    'Send a whole number in that range. Fractions are refused, not rounded.',
  ),
  invalid_targeting: change(
    'The targeting does not fit the product or the plan.',
    'Send the fields and values that the message names.',
    ['An unknown field or value.', 'Targeting on a product that takes none.'],
  ),
  invalid_country: change(
    'The country is missing or not one that this product can be ordered in.',
    'Use a country of GET /api/v1/products/{id}/options.',
  ),
  invalid_period: change(
    'The period is missing or not one that this product is rented for.',
    'Use a period that the message names.',
  ),
  invalid_amount: change(
    "The amount is missing, not a whole number of cents, or outside the range of the operation: 1 to 500,000 for payments, and for movements of a customer's credit the range that the message names.",
    'Send a whole number of cents in that range.',
  ),
  price_outside_limits: change(
    'The markup or the price is outside the limits of the service. Nothing was changed.',
    'Send a value within the limits that the message names.',
  ),
  price_below_cost: change(
    "The price is below the reseller's cost at the quantity that the message names. Nothing was changed.",
    'Send a higher price, or `allow_below_cost` for this product.',
  ),
  unsupported_method: change(
    'The payment method is not offered here.',
    'Use a method of the list in the message.',
  ),
  invalid_limit: change(
    'The page size is not a whole number of 1 or more.',
    'Send 1 to 100, or leave it out for 50. Sizes above the maximum are capped, not refused.',
  ),
  invalid_offset: change(
    'The offset is not a whole number of 0 or more.',
    'Send a whole number, or leave it out for 0.',
  ),
  invalid_idempotency_key: change(
    'The Idempotency-Key is not 1 to 255 printable ASCII characters.',
    'Send a shorter key of such characters, for example a UUID.',
  ),
  idempotency_key_required: change(
    'A reseller key must send an Idempotency-Key with this operation.',
    'Send a new key with each order, and the same key with each retry of it.',
  ),
  invalid_customer_id: change(
    'The request does not name a valid customer.',
    'Follow the message, which names the cause.',
    [
      'X-Reseller-Customer-Id, or customer_id in the query, is not 1 to 128 printable characters.',
      'The two name different customers.',
      'The resource belongs to the account and not to a customer.',
      'A plan or address of a customer is to be paid for, and the customer is not named.',
    ],
  ),
  no_price_list: change(
    'Products sold per GB or per speed tier have no price list.',
    'Ask GET /api/v1/products/{id}/price.',
  ),
  no_options: change(
    'Gateway products have no options.',
    'Order without targeting. Choose the country when you generate lines of the plan.',
  ),
  invalid_count: change(
    'count is not a whole number from 1 to 5000, or above generate.maxCount of the plan.',
    'Send a number in that range.',
  ),
  invalid_sticky: change(
    'stickyMinutes is not a whole number of minutes, 0 or more.',
    'Send whole minutes, or leave it out.',
  ),
  invalid_asn: change('asn is not a whole AS number.', 'Use a number of GET /api/v1/geo/asns.'),
  invalid_os: change('os is not one of windows, android, ios, mac.', 'Send one of them, or leave it out.'),
  invalid_strict: change('strict is not true or false.', 'Send a JSON boolean.'),
  invalid_udp: change('udp is not true or false.', 'Send a JSON boolean.'),
  invalid_exclude: change(
    'An exclude list has more than 20 entries or a malformed entry.',
    'Correct the list that the message names.',
  ),
  invalid_events: change(
    'events is not a list of distinct webhook events.',
    'Send at least one event, or leave the field out for all events.',
  ),
  invalid_url: change(
    'The URL is not https, or its host is private or internal.',
    'Send an https URL of a public host.',
  ),
  invalid_ip: change(
    'The value is not an IPv4 or IPv6 address.',
    'Send one address, or one network where the operation takes networks.',
  ),
  subscription_not_available: change(
    'This subscription is not offered.',
    'Order each period with POST /api/v1/orders.',
    [
      'The product is not sold by subscription at this interval.',
      'The request names a customer. The wallet of the account pays a subscription.',
    ],
  ),
  bad_input: entry({
    status: 400,
    retry: 'after-change',
    meaning: 'The scraper rejected the parameters. The call was not billed.',
    remedy: 'Correct the field that `details` names.',
    extra: z.object({ details: z.string().optional() }),
    example: { details: 'handle' },
  }),

  insufficient_balance: entry({
    status: 402,
    retry: 'after-change',
    meaning: 'The wallet balance is too low by `shortfallCents`. Nothing was charged.',
    remedy: 'Top up the wallet, and send the same request with the same `Idempotency-Key`.',
    extra: z.object({
      balanceCents: cents,
      amountCents: cents,
      shortfallCents: cents.meta({
        description: 'The amount to pay in: `amountCents` plus `owedCents` minus `balanceCents`.',
      }),
      shortfallMicros: z.int().optional().meta({
        description:
          'The exact amount to pay in, in micro-dollars: a scraper call costs less than a cent. For scraper calls only.',
      }),
      owedCents: debtInShortfall,
      orderId: waitingOrderId,
      paidByCustomer: z.boolean().optional().meta({
        description:
          'True: the customer has paid this order. It waits for the wallet, and is placed by itself as soon as the wallet has `amountCents`. False: the customer has not paid it. Left out: no order exists yet.',
      }),
    }),
    example: { balanceCents: 120, amountCents: 1250, shortfallCents: 1130 },
  }),
  spend_cap_reached: entry({
    status: 402,
    retry: 'later',
    meaning:
      'The order or call would exceed the daily spend cap of this key, measured over the last 24 hours. Nothing was charged.',
    remedy: 'Wait, use another key, or raise the cap.',
    extra: z.object({ capCents: cents, spentCents: cents, amountCents: cents }),
    example: { capCents: 5000, spentCents: 4500, amountCents: 1250 },
  }),
  max_cents_exceeded: entry({
    status: 402,
    retry: 'after-change',
    meaning:
      'The calls of the batch could cost more than its `maxCents`. No call was made, and nothing was charged.',
    remedy: 'Send fewer inputs, or raise `maxCents` to the cost that the body has.',
    extra: z.object({
      costUsd: z.string().meta({
        description: 'The cost if all calls are billed, in dollars with four decimals.',
      }),
      maxCents: cents,
    }),
    example: { costUsd: '0.0330', maxCents: 3 },
  }),
  customer_credit_insufficient: entry({
    status: 402,
    retry: 'after-change',
    meaning: 'The credit of the named customer is too low by `shortfallCents`. Nothing was charged.',
    causes: [
      'With `payUrl`: the method is a rail with a live gateway of the reseller.',
      'Without `payUrl`: the request has no `method`, the method has no live gateway, or the amount is above $5,000.',
    ],
    remedy:
      'Send the customer to `payUrl`. The payment of `chargeCents` places the order once, under the same `Idempotency-Key`. A retry before the payment returns the same pay page. Without `payUrl`, credit the customer first.',
    extra: z.object({
      creditCents: cents.meta({ description: 'The credit of the customer.' }),
      amountCents: cents.meta({ description: 'The price, or the amount to take back.' }),
      shortfallCents: cents.meta({
        description: 'The amount to pay in: `amountCents` plus `owedCents` minus `creditCents`.',
      }),
      owedCents: debtInShortfall,
      orderId: waitingOrderId,
      payUrl: z
        .string()
        .optional()
        .meta({ description: "The pay page for the customer, under the reseller's merchant name." }),
      depositId: z
        .string()
        .optional()
        .meta({ description: 'The id of the deposit for the pay page. This deposit has `for_order: true`.' }),
      chargeCents: cents.optional().meta({
        description:
          'The shortfall in whole cents, raised to the minimum of the rail: $10 for card, $3 for crypto. The excess stays as credit.',
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
    meaning: 'No such id or path exists for this caller.',
    causes: [
      'The id or path does not exist.',
      'The resource belongs to another account.',
      'The resource does not belong to the customer in the request.',
    ],
    remedy: 'Check the id, the path, the key and the customer. All causes have the same answer.',
  }),
  unknown_scraper: entry({
    status: 404,
    retry: 'never',
    meaning: 'No scraper has this platform and operation.',
    remedy: 'Read the names with GET /v1/scrape.',
  }),
  target_not_found: entry({
    status: 404,
    retry: 'never',
    meaning:
      'The profile, post or id does not exist. The call was billed, because this answer is the result, unless `cached` is true.',
    remedy: 'Check the handle, link or id. A retry with the same `X-Request-Id` is not billed again.',
    extra: emptyResult,
    example: { billing: { priceUsd: '0.0030', billed: true }, cached: false },
  }),
  target_restricted: entry({
    status: 403,
    retry: 'never',
    meaning:
      'The target has an age limit, is blocked in the region, or requires a login. The call was not billed.',
    remedy: 'Choose another target.',
    extra: emptyResult,
    example: { billing: { priceUsd: '0.0030', billed: false }, cached: false },
  }),

  method_not_allowed: entry({
    status: 405,
    retry: 'after-change',
    meaning: 'The path exists but does not accept this method.',
    remedy: 'Use a method of the `Allow` header.',
  }),

  price_changed: entry({
    status: 409,
    retry: 'after-change',
    meaning: 'The price is no longer `expected_amount_cents`. Nothing was charged.',
    remedy: 'Show the `amountCents` of the body to the buyer, and order again with this amount.',
    extra: z.object({ amountCents: cents, unitPriceCents: cents, quantity: z.int() }),
    example: { amountCents: 1250, unitPriceCents: 250, quantity: 5 },
  }),
  product_unavailable: entry({
    status: 409,
    retry: 'later',
    meaning: 'The product is parked or retired.',
    remedy:
      'Order the product that `successorId` names. Without a successor, wait or choose another product.',
    extra: z.object({ successorId: z.string().nullable().optional() }),
    example: { successorId: 'residential-premium' },
  }),
  out_of_stock: entry({
    status: 409,
    retry: 'later',
    meaning: 'Too few addresses are free. Nothing was charged.',
    causes: [
      'The product and country (mobile products: also the carrier and service) have fewer free addresses than ordered. `availableQuantity` is the number of free addresses.',
      'Without `availableQuantity`: the rental to be extended has ended, or no address is free as a replacement.',
    ],
    remedy:
      'Order fewer addresses, or choose another country or carrier. `GET /api/v1/products/{id}/options` shows the stock.',
    extra: z.object({ availableQuantity: z.int().min(0).optional() }),
    example: { availableQuantity: 3 },
  }),
  rental_ended: entry({
    status: 409,
    retry: 'never',
    meaning:
      'The rental of this address has expired or was refunded. The address can be neither checked nor replaced.',
    remedy: 'Order a new address.',
  }),
  replacement_limit_reached: entry({
    status: 409,
    retry: 'later',
    meaning:
      'The address of a rental can be replaced once in 24 hours and three times in 30 days. Nothing was changed.',
    remedy: 'Wait until the time in the message.',
  }),
  check_not_available: entry({
    status: 409,
    retry: 'never',
    meaning: 'This service has no target for a check of this address.',
    remedy: 'Send a request through the address yourself. The operator can set `FAREBOX_GATEWAY_CHECK_URL`.',
  }),
  idempotency_conflict: entry({
    status: 409,
    retry: 'after-change',
    meaning: 'This idempotency key was used before with another request.',
    remedy: 'Use a new key for a new request.',
  }),
  already_applied: entry({
    status: 409,
    retry: 'never',
    meaning: 'A money movement with this reference already exists. Nothing was moved.',
    remedy: 'Do not retry. For a new movement, use a new reference.',
    extra: z.object({
      movementId: z.string(),
      amountCents: cents.nullable().meta({
        description:
          'The amount that was moved, in whole cents. Null: it was recorded long ago and never confirmed.',
      }),
    }),
    example: { movementId: 'dep_0b7c5f3e9a1d48c2b6e4f7a8091d2c3b', amountCents: 2500 },
  }),
  movement_declined: entry({
    status: 409,
    retry: 'never',
    meaning: 'An operator of the service declined the movement with this reference. Nothing was moved.',
    remedy: 'Read `note`. For a new movement, use a new reference.',
    extra: z.object({
      movementId: z.string(),
      decidedBy: z.string().meta({ description: 'The operator who declined it.' }),
      decidedAt: z.string().meta({ format: 'date-time' }),
      note: z.string().nullable().meta({ description: 'The reason. Null: none was given.' }),
    }),
    example: {
      movementId: 'dep_0b7c5f3e9a1d48c2b6e4f7a8091d2c3b',
      decidedBy: 'operator:ada',
      decidedAt: '2026-11-21T02:31:00.000Z',
      note: 'The receipt is missing.',
    },
  }),
  order_not_waiting: entry({
    status: 409,
    retry: 'never',
    meaning: 'The order does not wait for a payment: it was placed, or it failed. It cannot be canceled.',
    remedy: 'Read the order with GET /api/v1/orders/{id}. A placed order can only be refunded.',
    extra: z.object({ orderId: z.string(), status: z.string() }),
    example: { orderId: 'ord_5f3c2a1b9d8e5f60a1b2c3d4e5f60718', status: 'completed' },
  }),
  webhook_limit_reached: entry({
    status: 409,
    retry: 'after-change',
    meaning:
      'The account has ten active webhook endpoints, or a hundred endpoints including the disabled ones.',
    remedy: 'Remove an endpoint first.',
  }),

  whitelist_limit_reached: entry({
    status: 409,
    retry: 'after-change',
    meaning: "The whitelists of the account's plans have 150 addresses in total. Nothing was added.",
    remedy: 'Remove an address first.',
  }),
  traffic_budget_limit_reached: entry({
    status: 409,
    retry: 'after-change',
    meaning: 'The plan has 100 traffic budgets. Nothing was added.',
    remedy: 'Remove a traffic budget of the plan first.',
  }),
  address_taken: entry({
    status: 409,
    retry: 'after-change',
    meaning: 'The address or network is on the whitelist of another plan. Nothing was added.',
    remedy: 'If `movable` is true, the other plan is yours: send the request again with `move` true.',
    extra: z.object({ movable: z.boolean() }),
    example: { movable: true },
  }),

  result_expired: entry({
    status: 410,
    retry: 'after-change',
    meaning:
      'A call with this `X-Request-Id` or `Idempotency-Key` was made before, and its result is no longer stored. Results are stored for 24 hours. Nothing was called or billed now.',
    remedy: 'Send a new one for a new call.',
  }),
  payload_too_large: entry({
    status: 413,
    retry: 'after-change',
    meaning: 'The body is larger than 256 KiB.',
    remedy: 'Send less data in one request.',
  }),
  unsupported_media_type: entry({
    status: 415,
    retry: 'after-change',
    meaning: 'The body is not JSON.',
    remedy: 'Send `Content-Type: application/json` in UTF-8, without a `Content-Encoding`.',
  }),
  rate_limited: entry({
    status: 429,
    retry: 'later',
    meaning: 'This key, address or account sent too many requests. The request was not processed.',
    remedy: 'Wait for the seconds in `Retry-After`, and send the request again.',
  }),
  internal_error: entry({
    status: 500,
    retry: 'later',
    meaning: 'An internal error occurred.',
    remedy:
      'Send the `requestId` to the operator. A write with an `Idempotency-Key` can safely be sent again.',
  }),
  gateway_unavailable: entry({
    status: 502,
    retry: 'later',
    meaning: 'The payment gateway did not answer.',
    remedy:
      'Wait for the seconds in `Retry-After`, and send the request again with the same `Idempotency-Key`.',
  }),
  provider_failed: entry({
    status: 502,
    retry: 'later',
    meaning: 'The request to the platform failed. The call was not billed.',
    remedy:
      'If `retryable` is true, wait for the seconds in `Retry-After`, and send the call again with the same `X-Request-Id` or `Idempotency-Key`. Else do not repeat it.',
    extra: z.object({
      retryable: z.boolean().meta({
        description:
          'False: the platform removed the page or answers in an unknown form, and a repeat would fail, too.',
      }),
    }),
    example: { retryable: true },
  }),
  overloaded: entry({
    status: 503,
    retry: 'later',
    meaning: 'The service is temporarily unavailable.',
    remedy:
      'Wait for the seconds in `Retry-After`, and send the request again. A write with the same `Idempotency-Key` is executed once.',
  }),
  upstream_credits_exhausted: entry({
    status: 503,
    retry: 'later',
    meaning: 'The scraper provider has no capacity for the service. The call was not billed.',
    remedy: 'Retry shortly.',
  }),
  upstream_auth_rejected: entry({
    status: 503,
    retry: 'later',
    meaning: 'The service has no access to the scraper provider. The call was not billed.',
    remedy: 'Retry shortly. If the error persists, contact the operator.',
  }),
  scraper_unavailable: entry({
    status: 503,
    retry: 'later',
    meaning:
      'No provider has this scraper: it was withdrawn, or no provider is configured. The call was not billed.',
    remedy: 'Retry later, or contact the operator.',
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

/** Meaning, causes and remedy as one text. */
export const errorHelp = (code: ErrorCode): string => {
  const { meaning, causes = [], remedy } = errorEntry(code)
  return [meaning, ...(causes.length === 0 ? [] : [`Causes: ${causes.join(' ')}`]), remedy].join(' ')
}

export const errorCodes = Object.keys(errorTable) as readonly ErrorCode[]
