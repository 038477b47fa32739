import type { Catalog } from '../../domain/catalog/catalog.ts'
import { resellerRails } from '../../domain/payments/payments.ts'
import type { Shop } from '../../domain/resellers/events.ts'
import type { Terms } from '../../domain/resellers/fold.ts'
import { countryOf } from '../../kernel/countries.ts'
import type { LogStates } from '../../platform/commands/log-states.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import {
  emptyFormInput,
  type FormInput,
  fieldOf,
  keyField,
  type Problems,
  problemsOf,
} from '../../platform/ui/form.ts'
import { type Html, html } from '../../platform/ui/html.ts'
import {
  type AccountVisit,
  accountPage,
  type ConsolePage,
  goTo,
  refusedView,
  show,
} from '../../platform/ui/page.ts'
import { tableOf } from '../../platform/ui/table.ts'
import { countText, idText, stateText } from '../../platform/ui/text.ts'
import type { Resellers } from './terms.ts'
import { isMerchantName, maxMerchantName, shopAddressOf } from './terms-input.ts'
import { termsJson } from './terms-output.ts'

const path = '/console/reseller/shop'
const addressProblem = 'Type an https address such as https://shop.example/, or nothing.'

/** The typed settings. An empty field removes its setting. */
const parseShopForm = (typed: FormInput): { readonly shop: Shop } | { readonly problems: Problems } => {
  const [name, website, storefront] = ['name', 'website', 'storefront'].map((field) => typed.text(field)) as [
    string,
    string,
    string,
  ]
  const [site, storefrontUrl] = [shopAddressOf(website), shopAddressOf(storefront)]
  const problems: Problems = {
    ...(name !== '' &&
      !isMerchantName(name) && { name: `A name has 1 to ${maxMerchantName} printable characters.` }),
    ...(website !== '' && site === null && { website: addressProblem }),
    ...(storefront !== '' && storefrontUrl === null && { storefront: addressProblem }),
  }
  return Object.keys(problems).length > 0
    ? { problems }
    : { shop: { merchantName: name || null, website: site, storefrontLink: storefrontUrl } }
}

/** What a reseller's customers see where they pay. */
export const shopPages = ({
  resellers,
}: {
  readonly resellers: Pick<Resellers, 'read' | 'change'>
}): readonly ConsolePage[] => {
  const view = async ({ account, cause, formKey }: AccountVisit, typed: FormInput, problems: Problems) => {
    const read = await resellers.read(account.accountId, cause)
    if (read.outcome === 'refused') throw refuse('reseller_forbidden', read.refusal.message)
    const { merchantName, website, storefrontLink } = read.terms.shop
    return {
      title: 'Name on pay pages',
      body: html`${problemsOf(problems)}
<p>Pay pages carry your name. Afterwards a customer lands on your website, else on your storefront, else on a page of the service that names nobody.</p>
<form method="post" action="${path}" class="stack" novalidate>
${keyField(formKey)}
${fieldOf({ name: 'name', label: 'Name', hint: 'Of what is paid from now on. Empty: “Shop”.', maxlength: maxMerchantName, value: merchantName ?? '' }, typed, problems)}
${fieldOf({ name: 'website', label: 'Website', hint: 'https. Empty: none.', maxlength: 2_000, value: website ?? '' }, typed, problems)}
${fieldOf({ name: 'storefront', label: 'Storefront', hint: 'https, such as the link of your bot. Empty: none.', maxlength: 2_000, value: storefrontLink ?? '' }, typed, problems)}
<div class="acts"><button class="first">Keep</button> <a href="/console/reseller/gateways">Back</a></div>
</form>`,
      same: [
        `npx farebox reseller set --account ${account.accountId} --merchant-name "Your shop"   # the service does this`,
      ],
    }
  }

  const saveShop = async (visit: AccountVisit, typed: FormInput) => {
    const parsedForm = parseShopForm(typed)
    if ('problems' in parsedForm) return refusedView(await view(visit, typed, parsedForm.problems))
    const result = await resellers.change(visit.account.accountId, { shop: parsedForm.shop }, visit.cause)
    if (result.outcome === 'refused') throw refuse('reseller_forbidden', result.refusal.message)
    return goTo('/console/reseller/gateways', 'Pay pages say so from now on.')
  }

  return [
    accountPage({
      path,
      name: 'nameShop',
      summary: 'Sets what the pay pages of a reseller are called, and where they lead',
      for: ['reseller'],
      confirmed: true,
      show: async (visit) => show(await view(visit, emptyFormInput, {})),
      act: { once: true, run: saveShop },
    }),
  ]
}

const emptyText = (word: string): Html => html`<span class="soft">${word}</span>`

const fact = (name: string, value: Html | string): Html => html`<dt>${name}</dt><dd>${value}</dd>\n`

type TermsReads = {
  readonly termsOf: LogStates<Terms>
  readonly reads: Pick<Reads, 'settledHere'>
  readonly catalog: { current(): Pick<Catalog, 'resolve'> }
}

const terms = async ({ termsOf, reads, catalog }: TermsReads, { account }: AccountVisit) => {
  const { accountId } = account
  await reads.settledHere(accountId, 0)
  const ownTerms = termsJson(accountId, (await termsOf(accountId)).state)
  const nameOf = (productId: string): string => catalog.current().resolve(productId)?.name ?? productId
  return show({
    title: 'Terms',
    body: html`<p>What you pay, what your customers pay, and where their money goes. The service sets the discount, the prices and the bot; <a href="/console/reseller/gateways">gateways</a> and the <a href="/console/reseller/shop">name on pay pages</a> are yours to set.</p>
<dl class="facts">
${fact('Your discount', `${ownTerms.discountPct} % off the list price`)}
${fact('Customers pay', ownTerms.markup === null ? 'the list price' : `${ownTerms.markup} × the list price`)}
${fact('You sell', ownTerms.sellable === null ? 'every product' : ownTerms.sellable.map(nameOf).join(', ') || emptyText('nothing'))}
${fact('Name on pay pages', ownTerms.merchantName ?? emptyText('none'))}
${fact('Website', ownTerms.website ?? emptyText('none'))}
${fact('Storefront', ownTerms.storefrontLink ?? emptyText('none'))}
${fact('Messaging bot', ownTerms.bot === null ? emptyText('none') : html`${ownTerms.bot.provider} ${idText(ownTerms.bot.reference)}`)}
</dl>
<h2>Gateways</h2>
${tableOf({
  caption: 'Where the money of your customers goes, by the way they pay',
  rows: resellerRails.map((rail) => ({ rail, gateway: ownTerms.gateways[rail] })),
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
  rows: ownTerms.retail,
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

/** A reseller's cost, retail prices and products, as set by the service. */
export const termsPages = (services: TermsReads): readonly ConsolePage[] => [
  accountPage({
    path: '/console/reseller/terms',
    name: 'showTerms',
    summary: 'What a reseller pays and asks, its gateways and its bot',
    for: ['reseller'],
    nav: { label: 'Terms', group: 'Reseller' },
    show: (visit) => terms(services, visit),
  }),
]
