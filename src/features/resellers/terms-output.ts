import type { Catalog } from '../../domain/catalog/catalog.ts'
import { resellerRails } from '../../domain/payments/payments.ts'
import { isAdjusted, isMarkupAdjusted, type TermsRefusal } from '../../domain/resellers/decide.ts'
import type { Terms } from '../../domain/resellers/fold.ts'
import { trimEnd } from '../../kernel/formats.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { CliMisuse, type CliOutput, fields, table } from '../../platform/cli/output.ts'
import type { TermsResult } from './terms.ts'

/** An integer in units of the last decimal place as text: `decimalText(1_300_000, 6, 2)` is `1.30`. */
const decimalText = (value: number, decimals: number, atLeast = 0): string => {
  const digits = String(value).padStart(decimals + 1, '0')
  const fraction = trimEnd(digits.slice(-decimals), '0').padEnd(atLeast, '0')
  return fraction === '' ? digits.slice(0, -decimals) : `${digits.slice(0, -decimals)}.${fraction}`
}

const discountText = (basisPoints: number): string => decimalText(basisPoints, 2)
export const markupText = (millionths: number): string => decimalText(millionths, 6, 2)
const priceText = (micros: number): string => decimalText(micros, 6, 2)

/** Terms as JSON, in the notation of `reseller set`. Credentials are named, never shown. */
export const termsJson = (
  accountId: AccountId,
  { terms, catalog }: { readonly terms: Terms; readonly catalog: Pick<Catalog, 'resolve'> },
) => ({
  accountId,
  discountPct: discountText(terms.discountBp),
  markup: terms.markupMillionths === null ? null : markupText(terms.markupMillionths),
  markupAdjusted: isMarkupAdjusted(terms),
  priceLimits: terms.priceLimits && {
    from: markupText(terms.priceLimits.fromMillionths),
    to: markupText(terms.priceLimits.toMillionths),
  },
  sellable: terms.sellable,
  ...terms.shop,
  bot: terms.bot,
  gateways: terms.gateways,
  retail: terms.retail.map((price) => ({
    productId: price.productId,
    country: price.country,
    periodDays: price.periodDays,
    tiers: price.tiers.map(({ from, unitPriceMicros }) => ({ from, unitPrice: priceText(unitPriceMicros) })),
    belowCost: price.belowCost,
    adjusted: isAdjusted(catalog, terms, price),
  })),
})

/** A price by quantity in the notation of `reseller retail`. */
export const tiersText = (tiers: readonly { readonly from: number; readonly unitPrice: string }[]): string =>
  tiers.map(({ from, unitPrice }) => (tiers.length === 1 ? unitPrice : `${from}:${unitPrice}`)).join(', ')

export const termsText = (accountId: AccountId, source: Parameters<typeof termsJson>[1]): string => {
  const { terms } = source
  const { shop, gateways, bot } = terms
  const settings = fields({
    reseller: accountId,
    discount: `${discountText(terms.discountBp)} %`,
    markup: terms.markupMillionths === null ? null : markupText(terms.markupMillionths),
    'markup adjusted': isMarkupAdjusted(terms) ? 'yes' : null,
    'own prices':
      terms.priceLimits &&
      `${markupText(terms.priceLimits.fromMillionths)} to ${markupText(terms.priceLimits.toMillionths)} of the list price`,
    sellable: terms.sellable === null ? 'every product' : terms.sellable.join(' ') || 'none',
    'merchant name': shop.merchantName,
    website: shop.website,
    storefront: shop.storefrontLink,
    bot: bot && `${bot.provider} ${bot.reference}`,
    ...Object.fromEntries(
      resellerRails.map((rail) => {
        const ref = gateways[rail]
        return [`${rail} gateway`, ref && `${ref.provider} ${ref.reference}`]
      }),
    ),
  })
  const retail = table(
    termsJson(accountId, source).retail,
    {
      product: 'productId',
      country: 'country',
      days: 'periodDays',
      'unit price, $': ({ tiers }) => tiersText(tiers),
      'below cost': ({ belowCost }) => (belowCost ? 'allowed' : ''),
      adjusted: ({ adjusted }) => (adjusted ? 'yes' : ''),
    },
    'no retail prices',
  )
  return `${settings}\n\n${retail}`
}

/** The log refused it, but each of these refusals is an input error: exit code 2. */
export const refusalOf = ({ code, message }: TermsRefusal): CliMisuse =>
  new CliMisuse(message, {}, code === 'unknown_account' ? 'not_found' : code)

/** The result of a change: its message, or that nothing changed. */
export const changeOutput = (accountId: AccountId, result: TermsResult, changeText: string): CliOutput => {
  if (result.outcome === 'refused') throw refusalOf(result.refusal)
  const { changed } = result
  return {
    json: { accountId, changed },
    text: changed ? `${accountId}: ${changeText}` : `nothing to do: ${accountId} has these settings already`,
  }
}
