import type { Catalog } from '../../domain/catalog/catalog.ts'
import { resellerRails } from '../../domain/payments/payments.ts'
import type { Shop } from '../../domain/resellers/events.ts'
import type { Terms } from '../../domain/resellers/fold.ts'
import { countryOf } from '../../kernel/countries.ts'
import type { LogStates } from '../../platform/commands/log-states.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import { type FormInput, fieldOf, formOf, type Problems, problemsIn } from '../../platform/ui/form.ts'
import { type Html, html } from '../../platform/ui/html.ts'
import { type ConsolePage, goTo, refused, resellerPage } from '../../platform/ui/page.ts'
import { detailsOf, tableOf } from '../../platform/ui/table.ts'
import { buttonLink, countText, idText, softText, stateText } from '../../platform/ui/text.ts'
import { productName } from '../catalog/index.ts'
import { markupPath, pricePath } from './price-pages.ts'
import type { Resellers } from './terms.ts'
import { isMerchantName, maxMerchantName, shopAddressOf } from './terms-input.ts'
import { termsJson, tiersText } from './terms-output.ts'

const path = '/console/reseller/shop'
const addressProblem = 'Type an https URL such as https://shop.example/, or leave it empty.'

/** The typed settings. An empty field removes its setting. */
const parseShopForm = (typed: FormInput): { readonly shop: Shop } | { readonly problems: Problems } => {
  const [name, website, storefront] = ['name', 'website', 'storefront'].map((field) => typed.text(field)) as [
    string,
    string,
    string,
  ]
  const [site, storefrontUrl] = [shopAddressOf(website), shopAddressOf(storefront)]
  const problems = problemsIn({
    name: name !== '' && !isMerchantName(name) && `A name has 1 to ${maxMerchantName} printable characters.`,
    website: website !== '' && site === null && addressProblem,
    storefront: storefront !== '' && storefrontUrl === null && addressProblem,
  })
  return problems
    ? { problems }
    : { shop: { merchantName: name || null, website: site, storefrontLink: storefrontUrl } }
}

/** What a reseller's customers see where they pay. */
export const shopPages = ({
  resellers,
}: {
  readonly resellers: Pick<Resellers, 'read' | 'change'>
}): readonly ConsolePage[] => [
  resellerPage({
    path,
    name: 'nameShop',
    summary: 'Sets the name on the pay pages of a reseller, and the addresses that they link to',
    confirmed: true,
    show: async ({ account, cause, form }) => {
      const read = await resellers.read(account.accountId, cause)
      if (read.outcome === 'refused') throw refuse('reseller_forbidden', read.refusal.message)
      const { merchantName, website, storefrontLink } = read.terms.shop
      const field = (
        name: string,
        label: string,
        hint: string,
        maxlength: number,
        value: string | null,
      ): Html => fieldOf({ name, label, hint, maxlength, value: value ?? '' }, form)
      return {
        title: 'Name on pay pages',
        body: html`<p>Pay pages show your name. After the payment a customer continues to your website, else to your storefront, else to a page of the service without a name.</p>
${formOf(form, {
  fields: [
    field('name', 'Name', 'For new invoices. Empty: “Shop”.', maxMerchantName, merchantName),
    field('website', 'Website', 'An https URL. Empty: none.', 2_000, website),
    field(
      'storefront',
      'Storefront',
      'An https URL, such as the link of your bot. Empty: none.',
      2_000,
      storefrontLink,
    ),
  ],
  submit: 'Save',
  back: '/console/reseller/gateways',
})}`,
        cliEquivalents: [
          `bin/farebox reseller set --account ${account.accountId} --merchant-name "Your shop"   # for operators`,
        ],
      }
    },
    act: {
      once: true,
      run: async ({ account, cause }, typed) => {
        const parsedForm = parseShopForm(typed)
        if ('problems' in parsedForm) return refused(parsedForm.problems)
        const result = await resellers.change(account.accountId, { shop: parsedForm.shop }, cause)
        if (result.outcome === 'refused') throw refuse('reseller_forbidden', result.refusal.message)
        return goTo('/console/reseller/gateways', 'Saved. New invoices use the name.')
      },
    },
  }),
]

/** A reseller's cost, retail prices and products, as set by the service. */
export const termsPages = ({
  termsOf,
  reads,
  catalog,
}: {
  readonly termsOf: LogStates<Terms>
  readonly reads: Pick<Reads, 'settledHere'>
  readonly catalog: { current(): Pick<Catalog, 'resolve'> }
}): readonly ConsolePage[] => [
  resellerPage({
    path: '/console/reseller/terms',
    name: 'showTerms',
    summary: 'The prices, gateways and bot of a reseller',
    show: async ({ account: { accountId } }) => {
      await reads.settledHere(accountId, 0)
      const { state } = await termsOf(accountId)
      const terms = termsJson(accountId, { terms: state, catalog: catalog.current() })
      const nameOf = (productId: string): string => productName(catalog, productId)
      const { discountPct, markup, priceLimits, sellable, bot } = terms
      return {
        title: 'Terms',
        ...(priceLimits !== null && {
          actions: html`${buttonLink(markupPath, 'Set markup', 'first')}${buttonLink(pricePath, 'Set a price')}`,
        }),
        body: html`<p>Your prices, the prices of your customers, and your gateways. The service sets the discount and the bot. You set the <a href="/console/reseller/gateways">gateways</a> and the <a href="/console/reseller/shop">name on pay pages</a>.</p>
${detailsOf([
  ['Your discount', `${discountPct} % off the list price`],
  [
    'Customers pay',
    `${markup === null ? 'the list price' : `${markup} × the list price`}${terms.markupAdjusted ? '; charged at the nearest allowed price' : ''}`,
  ],
  [
    'Prices you may set',
    priceLimits === null
      ? 'none; only operators set prices'
      : `from ${priceLimits.from} to ${priceLimits.to} × the list price`,
  ],
  ['You sell', sellable === null ? 'every product' : sellable.map(nameOf).join(', ') || softText('nothing')],
  ['Name on pay pages', terms.merchantName ?? softText('none')],
  ['Website', terms.website ?? softText('none')],
  ['Storefront', terms.storefrontLink ?? softText('none')],
  ['Messaging bot', bot === null ? softText('none') : html`${bot.provider} ${idText(bot.reference)}`],
])}
<h2>Gateways</h2>
${tableOf({
  caption: 'Your gateways by payment method',
  rows: resellerRails.map((rail) => ({ rail, gateway: terms.gateways[rail] })),
  columns: [
    { title: 'Payment method', head: true, cell: ({ rail }) => rail },
    {
      title: 'State',
      cell: ({ gateway }) =>
        gateway === null ? stateText('not set up', 'off') : stateText('set up', 'good'),
    },
    { title: 'Provider', cell: ({ gateway }) => gateway?.provider ?? '' },
    { title: 'Credentials', cell: ({ gateway }) => gateway && idText(gateway.reference) },
  ],
})}
<h2>Your own prices</h2>
${tableOf({
  caption: 'Unit prices of your customers, before the markup',
  rows: terms.retail,
  empty: 'There are none. The prices above apply.',
  columns: [
    { title: 'Product', head: true, cell: ({ productId }) => nameOf(productId) },
    { title: 'Country', cell: ({ country }) => country && countryOf(country).name },
    { title: 'Period', cell: ({ periodDays }) => periodDays && countText(periodDays, 'day') },
    { title: 'Unit price, USD', number: true, cell: ({ tiers }) => tiersText(tiers) },
    {
      title: 'Note',
      cell: ({ belowCost, adjusted }) =>
        [belowCost ? 'may be below your cost' : '', adjusted ? 'charged at the nearest allowed price' : '']
          .filter((text) => text !== '')
          .join('; '),
    },
  ],
})}`,
        cliEquivalents: [`bin/farebox reseller show ${accountId}   # for operators`],
      }
    },
  }),
]
