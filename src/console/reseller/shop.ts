import type { Shop } from '../../market/resellers/events.ts'
import { isMerchantName, maxMerchantName, shopAddressOf } from '../../market/resellers/shop-forms.ts'
import { refuse } from '../../platform/http/errors.ts'
import { html } from '../../platform/pages/html.ts'
import { fieldOf, keyField, type Problems, problemsOf, type Typed, untyped } from '../frame/form.ts'
import { type AccountVisit, accountPage, type ConsolePage, goTo, refusedView, show } from '../pages/page.ts'
import type { ResellerPagesDeps } from './deps.ts'

const path = '/console/reseller/shop'
const addressProblem = 'Type an https address such as https://shop.example/, or nothing.'

/** What was typed; empty takes a thing away. */
const shopAsked = (typed: Typed): { readonly shop: Shop } | { readonly problems: Problems } => {
  const [name, website, storefront] = ['name', 'website', 'storefront'].map((field) => typed.text(field)) as [
    string,
    string,
    string,
  ]
  const [site, front] = [shopAddressOf(website), shopAddressOf(storefront)]
  const problems: Problems = {
    ...(name !== '' &&
      !isMerchantName(name) && { name: `A name has 1 to ${maxMerchantName} printable characters.` }),
    ...(website !== '' && site === null && { website: addressProblem }),
    ...(storefront !== '' && front === null && { storefront: addressProblem }),
  }
  return Object.keys(problems).length > 0
    ? { problems }
    : { shop: { merchantName: name || null, website: site, storefrontLink: front } }
}

/** What a reseller's customers see of it where they pay. */
export const shopPages = ({ resellers }: ResellerPagesDeps): readonly ConsolePage[] => {
  const view = async ({ account, cause, formKey }: AccountVisit, typed: Typed, problems: Problems) => {
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

  const keep = async (visit: AccountVisit, typed: Typed) => {
    const asked = shopAsked(typed)
    if ('problems' in asked) return refusedView(await view(visit, typed, asked.problems))
    const done = await resellers.change(visit.account.accountId, { shop: asked.shop }, visit.cause)
    if (done.outcome === 'refused') throw refuse('reseller_forbidden', done.refusal.message)
    return goTo('/console/reseller/gateways', 'Pay pages say so from now on.')
  }

  return [
    accountPage({
      path,
      name: 'nameShop',
      summary: 'Sets what the pay pages of a reseller are called, and where they lead',
      for: ['reseller'],
      confirmed: true,
      show: async (visit) => show(await view(visit, untyped, {})),
      act: { once: true, run: keep },
    }),
  ]
}
