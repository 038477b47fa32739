import { readTerms } from '../../market/resellers/gateways.ts'
import { termsJson } from '../../market/resellers/output.ts'
import { resellerRails } from '../../money/payments/rails.ts'
import { type Html, html } from '../../platform/pages/html.ts'
import { countryOf } from '../../terms/countries.ts'
import { stateText } from '../customer/words.ts'
import { tableOf } from '../frame/table.ts'
import { countText, idText } from '../frame/text.ts'
import { type AccountVisit, accountPage, type ConsolePage, show } from '../pages/page.ts'
import type { ResellerPagesDeps } from './deps.ts'

const none = (word: string): Html => html`<span class="soft">${word}</span>`

const fact = (name: string, value: Html | string): Html => html`<dt>${name}</dt><dd>${value}</dd>\n`

const terms = async (deps: ResellerPagesDeps, { account }: AccountVisit) => {
  const { accountId } = account
  await deps.reads.settledHere(accountId, 0)
  const own = termsJson(accountId, await readTerms(deps.pool, accountId))
  const nameOf = (productId: string): string => deps.catalog.current().resolve(productId)?.name ?? productId
  return show({
    title: 'Terms',
    body: html`<p>What you pay, what your customers pay, and where their money goes. The service sets the discount, the prices and the bot; <a href="/console/reseller/gateways">gateways</a> and the <a href="/console/reseller/shop">name on pay pages</a> are yours to set.</p>
<dl class="facts">
${fact('Your discount', `${own.discountPct} % off the list price`)}
${fact('Customers pay', own.markup === null ? 'the list price' : `${own.markup} × the list price`)}
${fact('You sell', own.sellable === null ? 'every product' : own.sellable.map(nameOf).join(', ') || none('nothing'))}
${fact('Name on pay pages', own.merchantName ?? none('none'))}
${fact('Website', own.website ?? none('none'))}
${fact('Storefront', own.storefrontLink ?? none('none'))}
${fact('Messaging bot', own.bot === null ? none('none') : html`${own.bot.provider} ${idText(own.bot.reference)}`)}
</dl>
<h2>Gateways</h2>
${tableOf({
  caption: 'Where the money of your customers goes, by the way they pay',
  rows: resellerRails.map((rail) => ({ rail, gateway: own.gateways[rail] })),
  empty: html`<p>There is no way to pay.</p>`,
  columns: [
    { title: 'They pay by', head: true, cell: ({ rail }) => rail },
    {
      title: 'State',
      cell: ({ gateway }) =>
        gateway === null ? stateText('not set up', 'off') : stateText('takes money', 'good'),
    },
    { title: 'Provider', cell: ({ gateway }) => gateway?.provider ?? '' },
    { title: 'Its credentials', cell: ({ gateway }) => (gateway === null ? '' : idText(gateway.reference)) },
  ],
})}
<h2>Prices of your own</h2>
${tableOf({
  caption: 'What customers pay for one unit, before the multiple',
  rows: own.retail,
  empty: html`<p>None: customers pay as said above.</p>`,
  columns: [
    { title: 'Product', head: true, cell: ({ productId }) => nameOf(productId) },
    { title: 'Country', cell: ({ country }) => (country === null ? '' : countryOf(country).name) },
    { title: 'For', cell: ({ periodDays }) => (periodDays === null ? '' : countText(periodDays, 'day')) },
    { title: 'A unit, USD', number: true, cell: ({ unitPrice }) => unitPrice },
  ],
})}`,
    same: [`npx farebox reseller show ${accountId}   # the service does this`],
  })
}

/** What a reseller pays, asks and shows, as the service set it. */
export const termsPages = (deps: ResellerPagesDeps): readonly ConsolePage[] => [
  accountPage({
    path: '/console/reseller/terms',
    name: 'showTerms',
    summary: 'What a reseller pays and asks, its gateways and its bot',
    for: ['reseller'],
    nav: { label: 'Terms', group: 'Reseller' },
    show: (visit) => terms(deps, visit),
  }),
]
