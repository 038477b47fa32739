import { z } from 'zod'
import type { OwnPrice } from '../../domain/catalog/pricing.ts'
import type { TermsRefusal } from '../../domain/resellers/decide.ts'
import { maxRetailTiers } from '../../domain/resellers/limits.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { causeOf } from '../../platform/http/auth.ts'
import { refuse } from '../../platform/http/errors.ts'
import { either, given, withRule } from '../../platform/http/field-rules.ts'
import { accountOnly, type Route, route } from '../../platform/http/route.ts'
import { resellerOnly } from './customer-routes.ts'
import type { Resellers, TermsResult } from './terms.ts'
import { checkTiers, parseMarkup, parsePrice } from './terms-input.ts'
import { termsJson } from './terms-output.ts'

const decimal = z.string()
const PriceLimits = z.object({ from: decimal, to: decimal })

const ResellerTerms = z
  .object({
    discountPct: decimal.meta({ description: 'Off the list price: your cost.' }),
    markup: decimal
      .nullable()
      .meta({ description: 'Customers pay this multiple of the list price; null: the list price.' }),
    markupAdjusted: z.boolean().meta({
      description:
        'True: your discount or your limits changed, and the nearest allowed multiple of the list price is charged instead of the markup.',
    }),
    priceLimits: PriceLimits.nullable().meta({
      description:
        'The multiples of the list price between which you set prices; null: only operators set them.',
    }),
    sellable: z.array(z.string()).nullable().meta({ description: 'Product ids; null: every product.' }),
    retail: z.array(
      z.object({
        productId: z.string(),
        country: z.string().nullable(),
        periodDays: z.int().nullable(),
        tiers: z.array(z.object({ from: z.int(), unitPrice: decimal })).meta({
          description: 'Dollars for each unit of an order of `from` units or more. They replace the markup.',
        }),
        belowCost: z.boolean().meta({ description: 'Whether the price may be below your cost.' }),
        adjusted: z.boolean().meta({
          description:
            'True: list prices, your discount or your limits changed, and at some quantity the nearest allowed price is charged instead.',
        }),
      }),
    ),
  })
  .meta({ id: 'ResellerTerms' })

const example = {
  discountPct: '12.5',
  markup: '1.30',
  markupAdjusted: false,
  priceLimits: { from: '1.00', to: '3.00' },
  sellable: null,
  retail: [
    {
      productId: 'isp-static',
      country: 'USA',
      periodDays: 30,
      tiers: [{ from: 1, unitPrice: '3.50' }],
      belowCost: false,
      adjusted: false,
    },
  ],
}

const decimalForm = /^\d{1,5}(?:\.\d{1,6})?$/

/** A number above 0 as text, in the form of the command line, or null. */
const decimalField = (words: string) => z.string().regex(decimalForm).nullable().meta({ words })

/** @throws invalid_body with the message of the parser */
const parsed = <Value>(parse: () => Value): Value => {
  try {
    return parse()
  } catch (error) {
    throw refuse('invalid_body', (error as Error).message)
  }
}

/** Null is a value here: it removes the price. */
const hasUnitPrice = {
  keywords: { required: ['unit_price'] },
  holds: ({ unit_price }: Readonly<Record<string, unknown>>) => unit_price !== undefined,
}

type PriceBody = {
  readonly unit_price?: string | null | undefined
  readonly tiers?: readonly { readonly from: number; readonly unit_price: string }[] | undefined
  readonly allow_below_cost: boolean
}

/** The price in a body; null removes it. @throws invalid_body */
const ownPriceOf = ({ unit_price, tiers, allow_below_cost: belowCost }: PriceBody): OwnPrice | null => {
  if (unit_price === null) return null
  const texts = tiers ?? [{ from: 1, unit_price: unit_price ?? '' }]
  return parsed(() => ({
    tiers: checkTiers(
      texts.map(({ from, unit_price: text }) => ({ from, unitPriceMicros: parsePrice(text) })),
    ),
    belowCost,
  }))
}

/** @throws the error of a refusal */
export const termsRefused = ({ code, message }: TermsRefusal): Error => {
  switch (code) {
    case 'unknown_account':
    case 'not_a_reseller':
      return refuse('reseller_forbidden', message)
    case 'too_many_prices':
      return refuse('invalid_body', message)
    default:
      return refuse(code, message)
  }
}

/** A reseller's terms, and the prices that it sets itself: docs/reference/api.md, "Resellers and finance". */
export const resellerTermsRoutes = ({
  resellers,
}: {
  readonly resellers: Pick<Resellers, 'read' | 'setPrices'>
}): readonly Route[] => {
  const termsAfter = async (
    accountId: AccountId,
    cause: ReturnType<typeof causeOf>,
    change?: Promise<TermsResult>,
  ) => {
    const changed = await change
    if (changed?.outcome === 'refused') throw termsRefused(changed.refusal)
    const result = await resellers.read(accountId, cause)
    if (result.outcome === 'refused') throw termsRefused(result.refusal)
    const { discountPct, markup, markupAdjusted, priceLimits, sellable, retail } = termsJson(
      accountId,
      result,
    )
    return {
      status: 200,
      body: { discountPct, markup, markupAdjusted, priceLimits, sellable, retail },
      position: changed?.position ?? null,
    } as const
  }
  const shared = {
    tag: 'Resellers',
    access: 'buy',
    customer: accountOnly('terms are'),
    responses: { 200: { description: 'The terms.', body: ResellerTerms, example } },
  } as const
  const refusals = [
    'reseller_forbidden',
    'prices_not_allowed',
    'price_outside_limits',
    'price_below_cost',
  ] as const

  return [
    route({
      ...shared,
      method: 'GET',
      path: '/api/v1/reseller/terms',
      operationId: 'getResellerTerms',
      summary: 'Read your terms',
      description: 'Your discount, the prices of your customers, and the limits within which you set them.',
      writes: false,
      errors: ['reseller_forbidden'],
      handler: async ({ caller, requestId }) => {
        resellerOnly(caller)
        return termsAfter(caller.accountId, causeOf({ caller, requestId }))
      },
    }),
    route({
      ...shared,
      method: 'PATCH',
      path: '/api/v1/reseller/terms',
      operationId: 'updateResellerTerms',
      summary: 'Set your markup',
      description:
        'Sets the markup of all products without a price of their own, within `priceLimits`. Null: customers pay the list price. Open orders and invoices keep their price.',
      writes: true,
      body: z.strictObject({ markup: decimalField('a multiple of the list price such as "1.30", or null') }),
      examples: { body: { markup: '1.30' } },
      errors: refusals,
      handler: async ({ caller, requestId, body: { markup } }) => {
        resellerOnly(caller)
        const cause = causeOf({ caller, requestId })
        return termsAfter(
          caller.accountId,
          cause,
          resellers.setPrices(
            caller.accountId,
            { markupMillionths: markup === null ? null : parsed(() => parseMarkup(markup)) },
            cause,
          ),
        )
      },
    }),
    route({
      ...shared,
      method: 'PUT',
      path: '/api/v1/reseller/prices',
      operationId: 'setResellerPrice',
      summary: 'Set the price of a product',
      description:
        'Sets what customers pay for a unit of a product: `unit_price` for every quantity, or `tiers` by quantity. At each quantity that can be ordered, the price must be within `priceLimits` of the list price, and not below your cost unless `allow_below_cost` is true. Products of dedicated addresses have a price for each of the named countries and periods. `unit_price` null: the markup applies again. If list prices, your discount or your limits change later, a price outside of them is charged at the nearest allowed price.',
      writes: true,
      body: withRule(
        z.strictObject({
          product_id: z.string(),
          countries: z
            .array(z.string().regex(/^[A-Za-z]{3}$/))
            .default([])
            .meta({ description: 'Alpha-3 codes; for dedicated addresses only.' }),
          periods: z
            .array(z.int().min(1))
            .default([])
            .meta({ description: 'Days; for dedicated addresses only.' }),
          unit_price: decimalField('dollars a unit such as "3.50", or null').optional().meta({
            description: 'Dollars a unit at every quantity. Left out: `tiers` has the prices.',
          }),
          tiers: z
            .array(
              z.strictObject({
                from: z.int().min(1).max(1_000_000),
                unit_price: z.string().regex(decimalForm).meta({ words: 'dollars a unit such as "3.50"' }),
              }),
            )
            .min(1)
            .max(maxRetailTiers)
            .optional()
            .meta({
              description:
                'Dollars for each unit of an order of `from` units or more. The first `from` is 1, and each later one is higher. Left out: `unit_price` has the price.',
            }),
          allow_below_cost: z
            .boolean()
            .default(false)
            .meta({ description: 'Allows prices of this product below your cost.' }),
        }),
        either(hasUnitPrice, given('tiers', 'array')),
        'must have either unit_price or tiers',
      ),
      examples: { body: { product_id: 'isp-static', countries: ['USA'], periods: [30], unit_price: '3.50' } },
      codes: { body: { countries: { value: 'invalid_country' }, periods: { value: 'invalid_period' } } },
      errors: [...refusals, 'unknown_product', 'invalid_country', 'invalid_period'],
      handler: async ({ caller, requestId, body }) => {
        resellerOnly(caller)
        const { product_id: productId, countries, periods } = body
        const price = ownPriceOf(body)
        const cause = causeOf({ caller, requestId })
        return termsAfter(
          caller.accountId,
          cause,
          resellers.setPrices(
            caller.accountId,
            {
              retail: {
                productId,
                countries: countries.map((code) => code.toUpperCase()),
                periods,
                price,
              },
            },
            cause,
          ),
        )
      },
    }),
  ]
}
