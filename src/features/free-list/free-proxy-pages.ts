import { type Anonymity, anonymities, protocols } from '../../domain/free-list/endpoint.ts'
import { alpha2Of, countryOfAlpha2 } from '../../kernel/countries.ts'
import { type Html, html } from '../../platform/ui/html.ts'
import { labelled, listOf } from '../../platform/ui/list.ts'
import { type ConsolePage, openPage } from '../../platform/ui/page.ts'
import { type Column, countColumn, textColumn, timeColumn } from '../../platform/ui/table.ts'
import { buttonLink, countText, oneOf, queryText, timeText } from '../../platform/ui/text.ts'
import { attribution } from './ip-tables.ts'
import type { ListEntry } from './list-entry.ts'
import type { LiveList } from './live-list.ts'

/** The country name for a two-letter code. */
export const countryText = (code: string | null): string =>
  code === null ? 'unknown' : countryOfAlpha2(code).name

/** The source of the IP data, with the link that its licence requires. */
export const attributionLine = (): Html =>
  html`<p class="soft">${attribution
    .split('https://db-ip.com')
    .flatMap((part, at) => [
      ...(at === 0 ? [] : [html`<a href="https://db-ip.com" rel="noreferrer">db-ip.com</a>`]),
      html`${part}`,
    ])}.</p>`

/** The warning before the use of a public proxy. */
export const warning = html`<p class="soft">Do not trust public proxies. Their operators can read and change your traffic: never send passwords, cookies or keys through them.</p>`

export const networkPath = (asn: number): string => `/networks/AS${asn}`

const anonymityWords: Readonly<Record<Anonymity, string>> = {
  elite: 'elite: hides you and the proxy',
  anonymous: 'anonymous: hides you',
  transparent: 'transparent: shows you',
}
export const anonymityText = (anonymity: Anonymity | null): string =>
  anonymity === null ? 'unknown' : anonymityWords[anonymity]

/** The columns of a table of live proxies. The network column is omitted on the network's own page. */
export const proxyColumns = (withNetwork: boolean): readonly Column<ListEntry>[] => [
  {
    title: 'Proxy',
    head: true,
    cell: ({ ip, port }) => html`<code class="id">${ip.includes(':') ? `[${ip}]` : ip}:${port}</code>`,
  },
  textColumn('Protocols', ({ protocols }) => protocols.join(', '), { place: 'plain' }),
  textColumn('Anonymity', ({ anonymity }) => anonymity ?? 'unknown', { place: 'plain' }),
  textColumn(
    'Location',
    ({ city, country_code }) =>
      city === null ? countryText(country_code) : `${city}, ${countryText(country_code)}`,
    { place: 'plain' },
  ),
  ...(withNetwork
    ? [
        {
          title: 'Network',
          cell: ({ asn, asn_org }: ListEntry) =>
            asn === null
              ? 'unknown'
              : html`<a href="${networkPath(asn)}">AS${asn}</a> <small>${asn_org ?? ''}</small>`,
        },
      ]
    : []),
  countColumn('Latency, ms', ({ latency_ms }) => latency_ms),
  countColumn('Uptime, %', ({ uptime_24h }) => uptime_24h),
  timeColumn('Checked', ({ last_checked }) => last_checked, { place: 'minor' }),
]

const root = '/free-proxies'
const pageRows = 100

export const countryField = { label: 'Country', hint: 'such as us' } as const

/** The country of a filter, and a message for an unknown code. */
export const countryFilter = (query: URLSearchParams) => {
  const typed = (query.get('country') ?? '').trim()
  const country = alpha2Of(typed) ?? undefined
  const message =
    country === undefined && typed !== ''
      ? html`<p class="message warn" role="status">No country has that code. Type two or three letters, such as us.</p>`
      : null
  return { country, message }
}

/** The live public proxies. Public pages. */
export const freeProxyPages = ({
  liveList,
  note,
}: {
  readonly liveList: LiveList
  /** What the answers lack because of missing data; null: nothing. */
  readonly note: string | null
}): readonly ConsolePage[] => [
  openPage({
    path: '/free-proxies',
    name: 'showFreeProxies',
    summary: 'The live free proxies',
    show: async (visit) => {
      const { query } = visit
      const { country, message } = countryFilter(query)
      const protocol = oneOf(protocols, query.get('protocol'))
      const anonymity = oneOf(anonymities, query.get('anonymity'))
      const values = Object.fromEntries(
        Object.entries({ country, protocol, anonymity }).filter(
          (entry): entry is [string, string] => !!entry[1],
        ),
      )
      const snapshot = await liveList.current()
      const { entries, total, updatedAt } = snapshot.page(
        { country, protocol, anonymity },
        Number.POSITIVE_INFINITY,
      )
      const kind = [protocol, anonymity].filter((word) => word !== undefined).join(' ')
      const title = `Free ${kind === '' ? '' : `${kind} `}proxies${country === undefined ? '' : ` in ${countryText(country)}`}`
      const textPath = `/api/proxy-list${queryText({ format: 'txt', ...values })}`
      const description = `${countText(total, 'public proxy', 'public proxies')} that passed the last check of this service, with protocol, anonymity, location, speed and uptime. Checked around the clock, free and without a key.`
      const list = await listOf(visit, {
        caption: 'Live proxies, highest uptime first',
        filters: {
          country: countryField,
          protocol: { label: 'Protocol', choices: labelled(protocols) },
          anonymity: { label: 'Anonymity', choices: anonymityWords },
        },
        rows: () => entries,
        limit: pageRows,
        empty: 'No public proxy is live now. Known ones are checked regularly.',
        columns: (_) => proxyColumns(true),
      })
      return {
        title,
        actions: buttonLink(textPath, 'Plain text'),
        indexed: {
          path: `${root}${queryText(values)}`,
          description,
          data: {
            '@type': 'Dataset',
            name: title,
            description,
            isAccessibleForFree: true,
            ...(updatedAt !== null && { dateModified: updatedAt }),
          },
        },
        body: html`<p>${countText(total, 'proxy', 'proxies')} passed the last check${updatedAt === null ? '' : html`, the latest at ${timeText(updatedAt)}`}.</p>
${message}
${list.body}
<p><a href="/networks">Networks of these proxies</a></p>
${warning}
${note === null ? null : html`<p class="soft">${note}.</p>`}
${attributionLine()}`,
        cliEquivalents: [`curl "$SITE${textPath}"   # no key needed`],
      }
    },
  }),
]
