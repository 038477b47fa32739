import { type Anonymity, anonymities, protocols } from '../../domain/free-list/endpoint.ts'
import { alpha2Of, countryOfAlpha2 } from '../../kernel/countries.ts'
import { type Html, html } from '../../platform/ui/html.ts'
import { type ConsolePage, openPage, show, type Visit } from '../../platform/ui/page.ts'
import { type Column, filtersOf, pagedOf, pagerOf, tableOf } from '../../platform/ui/table.ts'
import { countText, timeText } from '../../platform/ui/text.ts'
import { attribution } from './ip-tables.ts'
import { compareByRank, type Filter, type ListEntry, type RankFields } from './list-entry.ts'
import type { LiveList } from './live-list.ts'

/** The country name for a two-letter code. */
export const countryText = (code: string | null): string =>
  code === null ? 'not known' : countryOfAlpha2(code).name

/** The source of the IP data, with the link that its licence requires. */
export const attributionLine = (): Html =>
  html`<p class="soft">${attribution
    .split('https://db-ip.com')
    .flatMap((part, at) => [
      ...(at === 0 ? [] : [html`<a href="https://db-ip.com" rel="noreferrer">db-ip.com</a>`]),
      html`${part}`,
    ])}.</p>`

/** The warning before the use of a public proxy. */
export const warning = html`<p class="soft">Nobody vouches for a public proxy. Whoever runs one sees what is sent through it, and may change it: send no password, no cookie and no key through one.</p>`

export const networkPath = (asn: number): string => `/networks/AS${asn}`

const anonymityWords: Readonly<Record<Anonymity, string>> = {
  elite: 'elite: hides you and itself',
  anonymous: 'anonymous: hides you',
  transparent: 'transparent: shows you',
}
export const anonymityText = (anonymity: Anonymity | null): string =>
  anonymity === null ? 'not known' : anonymityWords[anonymity]

/** The columns of a table of live proxies. The network column is omitted on the network's own page. */
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

const root = '/free-proxies'
const pageRows = 100

/** The rank of a proxy as a link parameter. */
const rankText = ({ uptime_24h, latency_ms, ip, port }: ListEntry): string =>
  `${uptime_24h ?? ''}_${latency_ms ?? ''}_${ip}_${port}`

/** Parses the text of `rankText`; null for anything else, which starts the list at its beginning. */
const parseRank = (text: string | null): RankFields | null => {
  const [whole, uptime = '', latency = '', ip = '', port = ''] =
    /^(\d{0,3}(?:\.\d)?)_(\d{0,7})_([0-9a-f.:]{2,45})_(\d{1,5})$/.exec(text ?? '') ?? []
  if (whole === undefined) return null
  const numberOr = (digits: string) => (digits === '' ? null : Number(digits))
  return { uptime_24h: numberOr(uptime), latency_ms: numberOr(latency), ip, port: Number(port) }
}

const oneOf = <const Word extends string>(allowed: readonly Word[], text: string | null): Word | undefined =>
  allowed.find((word) => word === text)

const list = async (live: LiveList, note: string | null, { query }: Visit) => {
  const typedCountry = (query.get('country') ?? '').trim()
  const country = alpha2Of(typedCountry) ?? undefined
  const protocol = oneOf(protocols, query.get('protocol'))
  const anonymity = oneOf(anonymities, query.get('anonymity'))
  const filter: Filter = { country, protocol, anonymity }
  const filterQuery: Readonly<Record<string, string>> = {
    ...(country !== undefined && { country }),
    ...(protocol !== undefined && { protocol }),
    ...(anonymity !== undefined && { anonymity }),
  }
  const before = query.get('before')
  const after = parseRank(before)
  const snapshot = await live.current()
  const { entries, total, updatedAt } = snapshot.page(filter, Number.POSITIVE_INFINITY)
  const remaining = after === null ? entries : entries.filter((entry) => compareByRank(entry, after) > 0)
  const { rows, next } = pagedOf(remaining, rankText, pageRows)
  const which = [
    ...(protocol === undefined ? [] : [protocol]),
    ...(anonymity === undefined ? [] : [anonymity]),
  ].join(' ')
  const title = `Free ${which === '' ? '' : `${which} `}proxies${country === undefined ? '' : ` in ${countryText(country)}`}`
  const search = new URLSearchParams(filterQuery).toString()
  const querySuffix = search === '' ? '' : `?${search}`
  const text = new URLSearchParams({ format: 'txt', ...filterQuery })
  const description = `${countText(total, 'public proxy', 'public proxies')} that answered the last check of this service, with protocol, anonymity, place, speed and uptime. Checked around the clock, free and without a key.`
  return show({
    title,
    acts: html`<a class="button" href="/api/proxy-list?${text.toString()}">As text</a>`,
    indexed: {
      path: `${root}${querySuffix}`,
      description,
      data: {
        '@type': 'Dataset',
        name: title,
        description,
        isAccessibleForFree: true,
        ...(updatedAt !== null && { dateModified: updatedAt }),
      },
    },
    body: html`<p>${countText(total, 'proxy', 'proxies')} answered the last check${updatedAt === null ? '' : html`, the newest at ${timeText(updatedAt)}`}.</p>
${filtersOf(root, [
  { name: 'country', label: 'Country', value: country ?? '', hint: 'such as us' },
  {
    name: 'protocol',
    label: 'Speaks',
    value: protocol ?? '',
    choices: [{ value: '', label: 'any protocol' }, ...protocols.map((value) => ({ value, label: value }))],
  },
  {
    name: 'anonymity',
    label: 'Hides',
    value: anonymity ?? '',
    choices: [
      { value: '', label: 'any' },
      ...anonymities.map((value) => ({ value, label: anonymityText(value) })),
    ],
  },
])}
${country === undefined && typedCountry !== '' ? html`<p class="said warn" role="status">No country has that code: write two or three letters, such as us.</p>` : null}
${tableOf({
  caption: 'Live proxies, the ones that were up most first',
  rows,
  empty:
    querySuffix === '' && after === null
      ? html`<p>No public proxy answers now. All that ever did are checked again and again.</p>`
      : html`<p>No live proxy fits. <a href="${root}">Show all</a></p>`,
  columns: proxyColumns(true),
})}
${pagerOf(root, filterQuery, { before: after === null ? null : before, next }, { first: 'The best', next: 'More' })}
<p><a href="/networks">The networks behind them</a></p>
${warning}
${note === null ? null : html`<p class="soft">${note}.</p>`}
${attributionLine()}`,
    same: [`curl "$SITE/api/proxy-list?${text.toString()}"   # no key needed`],
  })
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
    nav: { label: 'Free proxies', group: 'For everybody' },
    show: (visit) => list(liveList, note, visit),
  }),
]
