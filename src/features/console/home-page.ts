import { type LiveStock, noStock } from '../../domain/catalog/availability.ts'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import { type Html, html } from '../../platform/ui/html.ts'
import { type ConsolePage, openPage } from '../../platform/ui/page.ts'
import { amountText, buttonLink, dollarText, perText } from '../../platform/ui/text.ts'
import { productView } from '../catalog/index.ts'

const tools = [
  { path: '/free-proxies', title: 'Free proxies', about: 'Public proxies that passed their last check.' },
  { path: '/proxy-checker', title: 'Proxy checker', about: 'Check whether your proxies work.' },
  { path: '/ip-lookup', title: 'IP lookup', about: 'The location and the network of an address.' },
  { path: '/networks', title: 'Networks', about: 'The networks of the free proxies.' },
]

const cardOf = (path: string, title: string, content: Html): Html =>
  html`<section class="card"><h3><a href="${path}">${title}</a></h3>${content}</section>`

/** The first page of the service. */
export const homePages = ({
  catalog,
  stock,
  liveScrapers,
  name,
}: {
  readonly catalog: { current(): Pick<Catalog, 'products'> }
  readonly stock: Pick<LiveStock, 'all'>
  /** The number of scrapers that have a serving provider now. */
  readonly liveScrapers: () => number
  /** The name of the service. */
  readonly name: string
}): readonly ConsolePage[] => [
  openPage({
    path: '/',
    name: 'showHome',
    summary: 'The products of the service',
    show: async ({ visitor }) => {
      const counts = await stock.all()
      const products = catalog
        .current()
        .products.filter(({ state }) => state === 'active')
        .map((product) => productView(product, counts.get(product.id) ?? noStock))
      return {
        title: 'Proxies and scrapers, prepaid',
        indexed: {
          path: '/',
          description: `${name} sells residential, ISP, mobile and datacenter proxies and scraper calls by API, prepaid from one wallet, to the cent.`,
          data: {
            '@type': 'WebSite',
            name,
            about: products.map((product) => ({
              '@type': 'Product',
              name: product.name,
              offers: {
                '@type': 'AggregateOffer',
                priceCurrency: product.publishedPrice.currency,
                lowPrice: amountText(product.publishedPrice.fromCents).replaceAll(',', ''),
              },
            })),
          },
        },
        actions: html`${visitor === null ? buttonLink('/console/sign-in', 'Sign in', 'first') : buttonLink('/console', 'Console', 'first')}${buttonLink('/docs', 'API reference')}`,
        body: html`<p>One prepaid wallet in US dollars pays for all products, in the API and in the console. Each price is shown before you buy, and the log has an event for each cent.</p>
<h2>Proxies</h2>
${
  products.length === 0
    ? html`<div class="empty"><p>There are no products yet.</p></div>`
    : html`<div class="cards">${products.map(
        ({ id, name: title, description, publishedPrice: { fromCents, per } }) =>
          cardOf(
            `/prices/${encodeURIComponent(id)}`,
            title,
            html`<p class="figure"><small>from</small> ${dollarText(fromCents)}</p><p class="soft">per ${perText(per)}</p>${description === '' ? null : html`<p>${description}</p>`}`,
          ),
      )}</div>`
}
<h2>Scrapers</h2>
<p>${liveScrapers()} scrapers of search engines, shops and social networks return JSON. You pay for calls with a result, and for calls whose target does not exist. <a href="/docs">Reference</a></p>
<h2>Free tools</h2>
<div class="cards">${tools.map(({ path, title, about }) => cardOf(path, title, html`<p>${about}</p>`))}</div>`,
        cliEquivalents: [
          'curl $API/products -H "X-API-Key: $KEY"',
          'curl "$SITE/api/proxy-list?limit=5"   # no key needed',
        ],
      }
    },
  }),
]
