import { z } from 'zod'
import { findDeposit, listDeposits } from '../../../projections/deposits.ts'
import { depositStatuses, shownDepositStatuses } from '../../domain/deposits/fold.ts'
import { maxDepositCents, type Rail, railNames, resellerRails } from '../../domain/payments/payments.ts'
import type { Clock } from '../../kernel/clock.ts'
import { requestDigest } from '../../kernel/digest.ts'
import { type AccountId, newId } from '../../kernel/ids.ts'
import { keyHeader } from '../../platform/http/answer.ts'
import { refuse } from '../../platform/http/errors.ts'
import { pageShape, pagingCodes, pagingQuery, wordQuery } from '../../platform/http/query.ts'
import { keyHeaders, type Route, replayHeaders, route } from '../../platform/http/route.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import { base, colours, pageOf, pageRoute } from '../../platform/ui/bare-page.ts'
import { html } from '../../platform/ui/html.ts'
import type { Customers } from '../accounts/index.ts'
import { DepositRecord, depositExample, depositRecord, owedCentsField } from './deposit-record.ts'
import type { Deposits } from './deposit-service.ts'
import { checkReturnUrl, type DepositPages, maxReturnUrl, returnUrlForm } from './deposit-urls.ts'

const style = `${colours()}${base}
body { min-height: 100vh; display: grid; place-items: center; padding: 24px; }
main { max-width: 30rem; padding: 36px 40px; background: var(--card); border: 1px solid var(--line); border-top: 4px solid var(--accent); border-radius: 10px; }
h1 { font-size: 26px; line-height: 1.2; letter-spacing: -.015em; margin: 0 0 16px; }
p { margin: 0 0 12px; }
.soft { color: var(--soft); font-size: 14px; margin: 20px 0 0; }
@media (max-width: 30rem) { body { padding: 12px; } main { padding: 28px 22px; } }
`

/**
 * The page after the provider's page, for payers who paid and for those who canceled. It states only what is true for
 * both, and names no shop, because it is the same for customers of every reseller.
 */
const body = html`<main>
<h1>You may close this page</h1>
<p>If you have paid, your payment is being confirmed. It counts as soon as the payment provider reports it: mostly within a minute, with crypto once the network has confirmed it.</p>
<p>There is nothing left to do here. Close this page, or go back to the shop.</p>
<p class="soft">If you left the payment page without paying, nothing was taken from you.</p>
</main>`

/** The path of the return page for payers without a shop's address. */
export const paidPath = '/paid'

/** `GET /paid`: a static page for payers, without scripts and external resources. */
export const paidPageRoute: Route = pageRoute({
  path: paidPath,
  operationId: 'getPaidPage',
  summary: 'The page that opens after a payment',
  page: async () => pageOf({ title: 'Back from the payment', style, body, indexed: false }),
})

const Body = z.strictObject({
  amount_cents: z.int().min(1).max(maxDepositCents).meta({
    description:
      'The amount in whole cents. An amount below the minimum of the rail ($3 for crypto, otherwise $10) is raised to the minimum.',
  }),
  method: z
    .enum(railNames as readonly [Rail, ...Rail[]])
    .default('card')
    .meta({ description: 'The payment method (rail). A deposit for a customer accepts `crypto` or `card`.' }),
  return_url: z
    .string()
    .max(maxReturnUrl)
    .regex(/^https:\/\//)
    .optional()
    .meta({
      words: returnUrlForm,
      description:
        "The https URL that opens after the payment. Left out: the reseller's website, otherwise its storefront. Without those, and for a deposit to your own wallet, the page `/paid` of the service opens, which says that the payment is being confirmed.",
    }),
})

const Created = z
  .object({
    deposit_id: z.string(),
    pay_url: z.string(),
    amount_cents: z.int(),
    owed_cents: owedCentsField,
    status: z.enum(depositStatuses),
  })
  .meta({ id: 'DepositCreated' })

const createdExample = {
  deposit_id: depositExample.deposit_id,
  pay_url: 'https://checkout.stripe.com/c/pay/cs_live_a1',
  amount_cents: 2500,
  owed_cents: 0,
  status: 'awaiting_payment',
} as const

/** The fingerprint that a retry under the same key must repeat (docs/reference/api.md, "Idempotency"). */
const fingerprintOf = (body: z.output<typeof Body>, customerId: string | null): string =>
  requestDigest([
    'POST',
    '/api/v1/deposits',
    body.amount_cents,
    body.method,
    body.return_url ?? null,
    customerId,
  ])

/** The return page of payers if the request has none. */
export type ReturnUrls = {
  /** The reseller's website, else its storefront; null when it has neither. */
  ofReseller(account: AccountId): Promise<string | null>
  /** The service's own page for payers. */
  readonly ofService: () => string
}

/** Deposits: docs/reference/api.md, "Deposits". */
export const depositRoutes = (dependencies: {
  readonly deposits: Deposits
  readonly pages: Pick<DepositPages, 'of'>
  readonly customers: Customers
  readonly returnUrls: ReturnUrls
  readonly reads: Pick<Reads, 'settled'>
  readonly db: Db
  readonly clock: Clock
}): readonly Route[] => {
  const { deposits, pages, customers, returnUrls, reads, db, clock } = dependencies
  return [
    route({
      method: 'POST',
      path: '/api/v1/deposits',
      operationId: 'createDeposit',
      summary: 'Open a deposit',
      description:
        "Creates an invoice with a pay page. A deposit to your own wallet uses the service's gateways. With `X-Reseller-Customer-Id` on a reseller key, the deposit is for that customer and uses the reseller's own gateway. All payments are credited, also an overpayment and an underpayment. A retry with the same `Idempotency-Key` returns the same open invoice. After that invoice closed, the retry creates a new invoice.",
      tag: 'Deposits',
      access: 'buy',
      writes: true,
      idempotencyKey: 'optional',
      customer: 'pays',
      body: Body,
      codes: {
        body: {
          amount_cents: 'invalid_amount',
          method: { value: 'unsupported_method' },
          return_url: { value: 'invalid_url' },
        },
      },
      examples: {
        body: { amount_cents: 2500, method: 'card', return_url: 'https://shop.example.com/thanks' },
      },
      responses: {
        200: {
          description: 'The open invoice.',
          body: Created,
          example: createdExample,
          headers: { ...keyHeaders, ...replayHeaders },
        },
      },
      errors: [
        'unsupported_method',
        'invalid_url',
        'idempotency_conflict',
        'deposits_not_available',
        'gateway_unavailable',
      ],
      handler: async ({ caller, scope, body, idempotencyKey, customerRef, requestId }) => {
        const { accountId, keyId } = caller
        const rail = body.method
        if (customerRef !== null && !(resellerRails as readonly Rail[]).includes(rail))
          throw refuse(
            'unsupported_method',
            `method must be one of ${resellerRails.join(', ')} for a customer's deposit`,
          )
        const requestedReturnUrl = body.return_url === undefined ? null : checkReturnUrl(body.return_url)
        const { customerId } = scope
        const fallback = customerId === null ? null : await returnUrls.ofReseller(accountId)
        const key = idempotencyKey ?? newId('auto')
        const { deposit, payUrl, replayed, position } = await deposits.open(
          {
            accountId,
            customerId,
            ...(customerRef !== null && {
              relate: async () => void (await customers.ensure(accountId, customerRef)),
            }),
            idempotencyKey: key,
            fingerprint: fingerprintOf(body, customerId),
            amountCents: body.amount_cents,
            rail,
            returnUrl: requestedReturnUrl ?? fallback ?? returnUrls.ofService(),
            pending: null,
          },
          { actor: { kind: 'key', accountId, keyId }, correlationId: requestId },
        )
        return {
          status: 200,
          body: {
            deposit_id: deposit.details.depositId,
            pay_url: payUrl,
            amount_cents: deposit.details.amountCents,
            owed_cents: deposit.details.owedCents ?? 0,
            status: deposit.status,
          },
          headers: keyHeader({ replayed, idempotencyKey: key }),
          position,
        }
      },
    }),

    route({
      method: 'GET',
      path: '/api/v1/deposits/{id}',
      operationId: 'getDeposit',
      summary: 'Read a deposit',
      description: 'The invoiced amount, the paid amount and the status of a deposit.',
      tag: 'Deposits',
      access: 'buy',
      writes: false,
      customer: 'limits',
      params: z.object({ id: z.string() }),
      examples: { params: { id: depositExample.deposit_id } },
      responses: { 200: { description: 'The deposit.', body: DepositRecord, example: depositExample } },
      errors: ['not_found'],
      handler: async ({ scope, params, after }) => {
        await reads.settled(scope.accountId, after ?? 0)
        const row = await findDeposit(db, scope, params.id)
        if (!row) throw refuse('not_found', 'no deposit has this id')
        return { status: 200, body: depositRecord(row, clock(), pages) }
      },
    }),

    route({
      method: 'GET',
      path: '/api/v1/deposits',
      operationId: 'listDeposits',
      summary: 'List deposits',
      description:
        'The deposits of the account, newest first. For a reseller: also the deposits of its customers.',
      tag: 'Deposits',
      access: 'buy',
      writes: false,
      customer: 'limits',
      query: z.object({
        ...pagingQuery,
        status: wordQuery(shownDepositStatuses, 'Only deposits in this status.', 'DepositStatus').optional(),
      }),
      codes: { query: pagingCodes },
      responses: {
        200: {
          description: 'A page of deposits.',
          body: z.object({ deposits: z.array(DepositRecord), ...pageShape }).meta({ id: 'DepositList' }),
          example: { deposits: [depositExample], total: 1, limit: 50, offset: 0 },
        },
      },
      errors: [],
      handler: async ({ scope, query, after }) => {
        const { limit, offset, status } = query
        await reads.settled(scope.accountId, after ?? 0)
        const page = await listDeposits(db, scope, { limit, offset, status })
        const nowMs = clock()
        const deposits = page.deposits.map((row) => depositRecord(row, nowMs, pages))
        return { status: 200, body: { deposits, total: page.total, limit, offset } }
      },
    }),
  ]
}
