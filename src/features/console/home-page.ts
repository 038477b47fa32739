import { type LiveStock, noStock } from '../../domain/catalog/availability.ts'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import { type Html, html } from '../../platform/ui/html.ts'
import { type ConsolePage, openPage, show, type Visit } from '../../platform/ui/page.ts'
import { amountText, dollarText, perText } from '../../platform/ui/text.ts'
import { productView } from '../catalog/index.ts'

type HomeReads = {
  readonly catalog: { current(): Pick<Catalog, 'products'> }
  readonly stock: Pick<LiveStock, 'all'>
  /** The number of scrapers that have a serving provider now. */
  readonly liveScrapers: () => number
  /** The name of the service. */
  readonly name: string
}

const tools: readonly { readonly path: string; readonly title: string; readonly about: string }[] = [
  { path: '/free-proxies', title: 'Free proxies', about: 'Public proxies that answered their last check.' },
  {
    path: '/proxy-checker',
    title: 'Proxy checker',
    about: 'Whether proxies of yours work, and what they show.',
  },
  { path: '/ip-lookup', title: 'IP lookup', about: 'Where an address is, and whose network it is in.' },
  { path: '/networks', title: 'Networks', about: 'The networks behind the free proxies.' },
]

const cardOf = (path: string, title: string, content: Html): Html =>
  html`<section class="card"><h3><a href="${path}">${title}</a></h3>${content}</section>`

const homeView = async ({ catalog, stock, liveScrapers, name }: HomeReads, { visitor }: Visit) => {
  const counts = await stock.all()
  const products = catalog
    .current()
    .products.filter(({ state }) => state === 'active')
    .map((product) => productView(product, counts.get(product.id) ?? noStock))
  return show({
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
    acts:
      visitor === null
        ? html`<a class="button first" href="/console/sign-in">Sign in</a> <a class="button" href="/docs">API reference</a>`
        : html`<a class="button first" href="/console">Console</a> <a class="button" href="/docs">API reference</a>`,
    body: html`<p>One wallet in US dollars pays for everything here, by API or in the console. Each price is known before, and each cent can be followed to the event that moved it.</p>
<h2>Proxies</h2>
${
  products.length === 0
    ? html`<div class="empty"><p>Nothing is sold yet.</p></div>`
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
<p>${liveScrapers()} operations of search engines, shops and networks answer with JSON. A call is charged when there is a result, and when there is no such target. <a href="/docs">Their reference</a></p>
<h2>Free tools</h2>
<div class="cards">${tools.map(({ path, title, about }) => cardOf(path, title, html`<p>${about}</p>`))}</div>`,
    same: [
      'curl $API/products -H "X-API-Key: $KEY"',
      'curl "$SITE/api/proxy-list?limit=5"   # no key needed',
    ],
  })
}

/** The first page of the service. */
export const homePages = (services: HomeReads): readonly ConsolePage[] => [
  openPage({
    path: '/',
    name: 'showHome',
    summary: 'What is sold here, and how to begin',
    nav: { label: 'Home', group: 'For everybody' },
    show: (visit) => homeView(services, visit),
  }),
]
