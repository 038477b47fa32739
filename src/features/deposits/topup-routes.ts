import { z } from 'zod'
import {
  failureReasons,
  maxMonthlyCents,
  minTopupCents,
  pauseOf,
  pauseReasons,
  settingsProblem,
  type TopupState,
  takenCents,
  topupMethods,
} from '../../domain/deposits/topups.ts'
import { maxDepositCents } from '../../domain/payments/payments.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { type Caller, causeOf } from '../../platform/http/auth.ts'
import { refuse } from '../../platform/http/errors.ts'
import { either, given, withRule } from '../../platform/http/field-rules.ts'
import { namedEnum } from '../../platform/http/named-enum.ts'
import { accountOnly, type Route, route } from '../../platform/http/route.ts'
import type { AutoTopups } from './auto-topup.ts'

const cents = (min: number, max: number, description: string) =>
  z.int().min(min).max(max).meta({ description })
const amountField = cents(
  minTopupCents,
  maxDepositCents,
  'The amount of each top-up in whole cents: from $10 to $5,000. Null: a target balance is set.',
)
const targetField = cents(
  minTopupCents + 1,
  maxDepositCents,
  'A top-up raises the balance to this amount in whole cents. It is at least $10 above the threshold. Null: a fixed amount is set.',
)
const thresholdField = cents(
  1,
  maxDepositCents,
  'A top-up is made when the available balance falls below this amount in whole cents.',
)
const maxField = cents(
  minTopupCents,
  maxMonthlyCents,
  'The maximum sum of the automatic top-ups of a calendar month (UTC) in whole cents, at most $100,000. Deposits by hand do not count.',
)

const methodField = namedEnum('AutoTopupMethod', topupMethods).meta({
  description:
    'How a top-up is paid. `card`: the saved card is charged. `crypto`: an e-mail has the link of an invoice, which is also one of the deposits. No card is needed.',
})

const Settings = withRule(
  z.strictObject({
    thresholdCents: thresholdField,
    amountCents: amountField.nullable().default(null),
    targetBalanceCents: targetField.nullable().default(null),
    monthlyMaxCents: maxField,
    method: methodField.default('card'),
    resume: z.boolean().default(false).meta({
      description:
        'Resumes automatic top-up after a refund, a dispute or a block paused it. Without it, a paused one stays paused.',
    }),
  }),
  either(given('amountCents', 'integer'), given('targetBalanceCents', 'integer')),
  'must have either amountCents or targetBalanceCents',
)

const AutoTopup = z
  .object({
    enabled: z.boolean().meta({
      description:
        'Whether automatic top-up is on. With the method `card` a top-up is made only if a card is saved, too.',
    }),
    card: z
      .object({
        brand: z.string().meta({ description: 'The brand of the card.' }),
        lastFour: z.string().meta({ description: 'The last four digits of the card.' }),
      })
      .nullable()
      .meta({ description: 'The saved card. Null: no card is saved.' }),
    thresholdCents: thresholdField.nullable(),
    amountCents: amountField.nullable(),
    targetBalanceCents: targetField.nullable(),
    monthlyMaxCents: maxField.nullable(),
    method: methodField.nullable(),
    monthCents: z
      .int()
      .meta({ description: 'The sum of the automatic top-ups of this month, with one that is being paid.' }),
    pending: z.boolean().meta({ description: 'Whether a top-up is being paid.' }),
    paused: z
      .object({
        reason: namedEnum('AutoTopupPauseReason', pauseReasons).meta({
          description:
            'Why no top-up is made: after a `deposit_refund`, a `chargeback` or a block (`account_blocked`) until you send `resume`; at the `monthly_maximum` until the next month or until you change the settings.',
        }),
        until: z.string().nullable().meta({
          format: 'date-time',
          description: 'When the pause ends by itself. Null: it ends when you send `resume`.',
        }),
      })
      .nullable()
      .meta({ description: 'The pause. Null: there is none.' }),
    failure: z
      .object({
        reason: namedEnum('AutoTopupFailureReason', failureReasons).meta({
          description: 'Why the last top-up was not paid.',
        }),
        failures: z.int().meta({ description: 'The number of failures in a row.' }),
        retryAt: z.string().nullable().meta({
          format: 'date-time',
          description: 'No top-up is made before this time. Null: there is no pause.',
        }),
      })
      .nullable()
      .meta({
        description: 'The failure of the last top-up. Null: the last top-up was paid, or none was made.',
      }),
    currency: z.literal('USD'),
  })
  .meta({ id: 'AutoTopup' })

const example = {
  enabled: true,
  card: { brand: 'visa', lastFour: '4242' },
  thresholdCents: 2000,
  amountCents: 5000,
  targetBalanceCents: null,
  monthlyMaxCents: 50000,
  method: 'card',
  monthCents: 10000,
  pending: false,
  paused: null,
  failure: null,
  currency: 'USD',
} as const

/** The automatic top-up of an account, as the API and the command line show it. */
export const topupRecord = (topup: TopupState, nowMs: number) => {
  const { method, settings, open, lastFailure, failures, retryAtMs } = topup
  const off = {
    thresholdCents: null,
    amountCents: null,
    targetBalanceCents: null,
    monthlyMaxCents: null,
    method: null,
  }
  return {
    enabled: settings !== null,
    card: method && { brand: method.brand, lastFour: method.lastFour },
    ...(settings ? { ...settings, method: settings.method ?? ('card' as const) } : off),
    monthCents: takenCents(topup, nowMs),
    pending: open !== null,
    paused: pauseOf(topup, nowMs),
    failure: lastFailure && {
      reason: lastFailure,
      failures,
      retryAt: retryAtMs > nowMs ? isoTime(retryAtMs) : null,
    },
    currency: 'USD' as const,
  }
}

const path = '/api/v1/wallet/auto-topup'
/** The page of the console to which the customer returns from the page that saves a card. */
export const topupPagePath = '/console/auto-topup'
const customer = accountOnly('the wallet is')

/** @throws ApiError capped_key: automatic top-up takes more than a cap that covers everything would allow */
const requireUncapped = ({ cap }: Caller): void => {
  if (cap?.covers === 'everything')
    throw refuse('capped_key', 'the cap of this key covers everything, so it cannot change automatic top-up')
}

/** Automatic top-up: docs/operations/payments.md. */
export const topupRoutes = ({
  autoTopups,
  clock,
  origin,
}: {
  readonly autoTopups: AutoTopups
  readonly clock: Clock
  /** The public URL of the console. */
  readonly origin: () => string
}): readonly Route[] => [
  route({
    method: 'GET',
    path,
    operationId: 'getAutoTopup',
    summary: 'Read the automatic top-up',
    description: 'The settings of the automatic top-up, the saved card and the last failure.',
    tag: 'Account',
    access: 'buy',
    writes: false,
    customer,
    responses: { 200: { description: 'The automatic top-up.', body: AutoTopup, example } },
    errors: [],
    handler: async ({ caller, requestId }) => {
      const topup = await autoTopups.read(caller.accountId, causeOf({ caller, requestId }))
      return { status: 200, body: topupRecord(topup, clock()) }
    },
  }),

  route({
    method: 'PUT',
    path,
    operationId: 'setAutoTopup',
    summary: 'Turn automatic top-up on, or change it',
    description:
      'When the available balance falls below the threshold, one payment is made by the saved card, or with `method` `crypto` one invoice is made and sent by e-mail. Send either `amountCents` or `targetBalanceCents`. There is never a second payment or invoice at the same time, and never more than `monthlyMaxCents` in a calendar month (UTC). After a failed payment or an expired invoice the next one is made an hour later, then a day later. After three failures in a row automatic top-up is turned off. This request turns it on again. After a refund or a dispute of a payment, or a block of the account, automatic top-up is paused, and only a request with `resume` ends the pause. A debt of the account is paid first, also by automatic top-ups: see `owedCents` of `GET /api/v1/wallet`.',
    tag: 'Account',
    access: 'buy',
    writes: true,
    customer,
    body: Settings,
    examples: { body: { thresholdCents: 2000, amountCents: 5000, monthlyMaxCents: 50000 } },
    responses: { 200: { description: 'The automatic top-up.', body: AutoTopup, example } },
    errors: ['invalid_body', 'deposits_not_available', 'capped_key'],
    handler: async ({ caller, body, requestId }) => {
      requireUncapped(caller)
      const problem = settingsProblem(body)
      if (problem !== null) throw refuse('invalid_body', problem)
      const { topup, position } = await autoTopups.set(caller.accountId, body, causeOf({ caller, requestId }))
      return { status: 200, body: topupRecord(topup, clock()), position }
    },
  }),

  route({
    method: 'DELETE',
    path,
    operationId: 'removeAutoTopup',
    summary: 'Turn automatic top-up off, and remove the card',
    description:
      'Turns automatic top-up off and removes the saved card, here and at the payment provider. A payment that the provider has already made is credited. An open invoice can still be paid until it expires.',
    tag: 'Account',
    access: 'buy',
    writes: true,
    customer,
    responses: {
      200: {
        description: 'The automatic top-up, which is off.',
        body: AutoTopup,
        example: {
          ...example,
          enabled: false,
          card: null,
          thresholdCents: null,
          amountCents: null,
          monthlyMaxCents: null,
          method: null,
        },
      },
    },
    errors: ['capped_key'],
    handler: async ({ caller, requestId }) => {
      requireUncapped(caller)
      const cause = causeOf({ caller, requestId })
      await autoTopups.remove(caller.accountId, cause)
      return { status: 200, body: topupRecord(await autoTopups.read(caller.accountId, cause), clock()) }
    },
  }),

  route({
    method: 'POST',
    path: `${path}/card`,
    operationId: 'createCardPage',
    summary: 'Create a page that saves a card',
    description:
      'Returns a page of the payment provider on which a person saves a card for automatic top-up. The card replaces a saved one. The provider has the data of the card, and this service has only its brand and its last four digits. After that the console opens.',
    tag: 'Account',
    access: 'buy',
    writes: true,
    customer,
    responses: {
      200: {
        description: 'The page, which is valid for a day.',
        body: z
          .object({ url: z.string().meta({ description: 'The page of the payment provider.' }) })
          .meta({ id: 'CardPage' }),
        example: { url: 'https://checkout.stripe.com/c/pay/cs_live_b2' },
      },
    },
    errors: ['deposits_not_available', 'gateway_unavailable', 'capped_key'],
    handler: async ({ caller, requestId }) => {
      requireUncapped(caller)
      const returnUrl = `${origin()}${topupPagePath}`
      const url = await autoTopups.cardPage(caller.accountId, returnUrl, causeOf({ caller, requestId }))
      return { status: 200, body: { url } }
    },
  }),
]
