import { attribution } from '../../freelist/ip-data/packages.ts'
import type { ListEntry } from '../../freelist/list/entry.ts'
import type { Anonymity } from '../../freelist/record/endpoint.ts'
import { type Html, html } from '../../platform/pages/html.ts'
import { countryOfAlpha2 } from '../../terms/countries.ts'
import type { Column } from '../frame/table.ts'
import { timeText } from '../frame/text.ts'

/** A country for people, by its two letters. */
export const countryText = (code: string | null): string =>
  code === null ? 'not known' : countryOfAlpha2(code).name

/** Whom the data about addresses is from, with the link that its licence wants. */
export const attributionLine = (): Html =>
  html`<p class="soft">${attribution
    .split('https://db-ip.com')
    .flatMap((part, at) => [
      ...(at === 0 ? [] : [html`<a href="https://db-ip.com" rel="noreferrer">db-ip.com</a>`]),
      html`${part}`,
    ])}.</p>`

/** What everybody is to know before a public proxy is used. */
export const warning = html`<p class="soft">Nobody vouches for a public proxy. Whoever runs one sees what is sent through it, and may change it: send no password, no cookie and no key through one.</p>`

export const networkPath = (asn: number): string => `/networks/AS${asn}`

const anonymityWords: Readonly<Record<Anonymity, string>> = {
  elite: 'elite: hides you and itself',
  anonymous: 'anonymous: hides you',
  transparent: 'transparent: shows you',
}
export const anonymityText = (anonymity: Anonymity | null): string =>
  anonymity === null ? 'not known' : anonymityWords[anonymity]

/** The columns of a table of live proxies; on the page of their network it is not said again. */
export const proxyColumns = (withNetwork: boolean): readonly Column<ListEntry>[] => [
  {
    title: 'Proxy',
    head: true,
    cell: ({ ip, port }) => html`<code class="id">${ip.includes(':') ? `[${ip}]` : ip}:${port}</code>`,
  },
  { title: 'Speaks', cell: ({ protocols }) => protocols.join(', ') },
  { title: 'Hides', cell: ({ anonymity }) => anonymity ?? 'not known' },
  {
    title: 'Where',
    cell: ({ city, country_code }) =>
      city === null ? countryText(country_code) : `${city}, ${countryText(country_code)}`,
  },
  ...(withNetwork
    ? [
        {
          title: 'Network',
          cell: ({ asn, asn_org }: ListEntry) =>
            asn === null
              ? 'not known'
              : html`<a href="${networkPath(asn)}">AS${asn}</a> <small>${asn_org ?? ''}</small>`,
        },
      ]
    : []),
  {
    title: 'Takes, ms',
    number: true,
    cell: ({ latency_ms }) => (latency_ms === null ? '' : String(latency_ms)),
  },
  { title: 'Up, %', number: true, cell: ({ uptime_24h }) => (uptime_24h === null ? '' : String(uptime_24h)) },
  { title: 'Checked', cell: ({ last_checked }) => timeText(last_checked) },
]
