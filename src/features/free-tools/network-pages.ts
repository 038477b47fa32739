import { alpha2Of } from '../../kernel/countries.ts'
import { ApiError, refuse } from '../../platform/http/errors.ts'
import { html, nothing } from '../../platform/ui/html.ts'
import { type ConsolePage, openPage, show, type Visit } from '../../platform/ui/page.ts'
import { filtersOf, pagedOf, pagerOf, tableOf } from '../../platform/ui/table.ts'
import { countText, timeText } from '../../platform/ui/text.ts'
import { attributionLine, countryText, networkPath, proxyColumns, warning } from '../free-list/index.ts'
import type { Network, NetworkRecord } from './rank-networks.ts'
import { asnOf, compareByLiveProxies, maxNetworkRows, type Networks, type Rank } from './rank-networks.ts'

const root = '/networks'
const pageRows = 100
/** Links to other networks on a network's page. */
const neighbours = 12

const rankText = ({ live, not_answering, never_answered, asn }: Network): string =>
  `${live}_${not_answering}_${never_answered}_${asn}`

/** Parses the text of `rankText`; null for anything else. */
const rankOf = (text: string | null): Rank | null => {
  const match = /^(\d{1,9})_(\d{1,9})_(\d{1,9})_(\d{1,10})$/.exec(text ?? '')
  if (match === null) return null
  const [live = 0, not_answering = 0, never_answered = 0, asn = 0] = match.slice(1).map(Number)
  return { live, not_answering, never_answered, asn }
}

const list = async (networks: Networks, note: string | null, { query }: Visit) => {
  const typedCountry = (query.get('country') ?? '').trim()
  const country = alpha2Of(typedCountry) ?? undefined
  const before = query.get('before')
  const after = rankOf(before)
  const { networks: all, countedAt } = await networks.all(country)
  const remaining = after === null ? all : all.filter((network) => compareByLiveProxies(network, after) > 0)
  const { rows, next } = pagedOf(remaining, rankText, pageRows)
  const title = `Networks with public proxies${country === undefined ? '' : ` in ${countryText(country)}`}`
  const filterQuery: Readonly<Record<string, string>> = country === undefined ? {} : { country }
  const path = country === undefined ? root : `${root}?country=${country}`
  const description = `${countText(all.length, 'network')} (autonomous systems) that public proxies belong to: how many are live, do not answer now, or never answered.`
  return show({
    title,
    indexed: {
      path,
      description,
      data: {
        '@type': 'Dataset',
        name: title,
        description,
        isAccessibleForFree: true,
        dateModified: countedAt,
      },
    },
    body: html`${filtersOf(root, [{ name: 'country', label: 'Country', value: country ?? '', hint: 'such as us' }])}
${country === undefined && typedCountry !== '' ? html`<p class="said warn" role="status">No country has that code: write two or three letters, such as us.</p>` : null}
${tableOf({
  caption: 'Networks, the ones with most live proxies first',
  rows,
  empty:
    country === undefined && after === null
      ? html`<p>No endpoint is on record yet.</p>`
      : html`<p>No network fits. <a href="${root}">Show all</a></p>`,
  columns: [
    {
      title: 'Network',
      head: true,
      cell: ({ asn, name }) => html`<a href="${networkPath(asn)}">AS${asn}</a> ${name}`,
    },
    {
      title: 'Where',
      cell: ({ country_code }) =>
        country_code === null
          ? 'not known'
          : html`<a href="${root}?country=${country_code}">${countryText(country_code)}</a>`,
    },
    { title: 'Live', number: true, cell: ({ live }) => String(live) },
    { title: 'Do not answer now', number: true, cell: ({ not_answering }) => String(not_answering) },
    { title: 'Never answered', number: true, cell: ({ never_answered }) => String(never_answered) },
  ],
})}
${pagerOf(root, filterQuery, { before: after === null ? null : before, next }, { first: 'Most live', next: 'More' })}
<p class="soft">The live ones are counted now, the others at ${timeText(countedAt)}.</p>
<p><a href="/free-proxies">All live proxies</a></p>
${note === null ? null : html`<p class="soft">${note}.</p>`}
${attributionLine()}`,
    same: [
      `curl "$SITE/api/networks${country === undefined ? '' : `?country=${country}`}"   # no key needed`,
    ],
  })
}

/** Other networks, of the same country if known, those with most live proxies first. Empty during the first count. */
const neighboursOf = async (
  networks: Networks,
  asn: number,
): Promise<{ readonly country: string | null; readonly others: readonly Network[] }> => {
  try {
    const { networks: all } = await networks.all(undefined)
    const country = all.find((each) => each.asn === asn)?.country_code ?? null
    const others = all.filter((each) => each.asn !== asn)
    const sameCountry = others.filter((each) => country !== null && each.country_code === country)
    return sameCountry.length === 0
      ? { country: null, others: others.slice(0, neighbours) }
      : { country, others: sameCountry.slice(0, neighbours) }
  } catch (error) {
    if (error instanceof ApiError && error.code === 'overloaded') return { country: null, others: [] }
    throw error
  }
}

const bodyOf = (record: NetworkRecord, more: Awaited<ReturnType<typeof neighboursOf>>) => {
  const { counts, live, not_answering: unresponsive, never_answered: neverAnswered, note } = record
  const first = (count: number): string => (count > maxNetworkRows ? `, the first ${maxNetworkRows}` : '')
  return html`${note === null ? null : html`<p class="said warn" role="status">${note}.</p>`}
<dl class="facts">
<dt>Live</dt><dd>${countText(counts.live, 'proxy', 'proxies')}</dd>
<dt>Do not answer now</dt><dd>${countText(counts.not_answering, 'endpoint')}, checked again and again</dd>
<dt>Never answered</dt><dd>${countText(counts.never_answered, 'address', 'addresses')}</dd>
</dl>
${
  counts.live === 0
    ? null
    : html`<h2>Live${first(counts.live)}</h2>
${tableOf({ caption: 'Live proxies of the network', rows: live, empty: nothing, columns: proxyColumns(false) })}`
}
${
  unresponsive.length === 0
    ? null
    : html`<h2>Answered before${first(counts.not_answering)}</h2>
${tableOf({
  caption: 'Endpoints that answered before, the last to answer first',
  rows: unresponsive,
  empty: nothing,
  columns: [
    { title: 'Endpoint', head: true, cell: ({ endpoint }) => html`<code class="id">${endpoint}</code>` },
    { title: 'Where', cell: ({ location }) => location ?? 'not known' },
    { title: 'Answered last', cell: ({ last_answered }) => last_answered },
    { title: 'Answered of checks', number: true, cell: ({ answered }) => answered },
  ],
})}`
}
${
  neverAnswered.length === 0
    ? null
    : html`<h2>Never answered${first(counts.never_answered)}</h2>
${tableOf({
  caption: 'Addresses that never answered, the last to be checked first',
  rows: neverAnswered,
  empty: nothing,
  columns: [
    { title: 'Address', head: true, cell: ({ address }) => html`<code class="id">${address}</code>` },
    { title: 'Checks', number: true, cell: ({ tests }) => String(tests) },
    { title: 'Checked last', cell: ({ last_tested }) => last_tested },
  ],
})}`
}
${
  more.others.length === 0
    ? null
    : html`<h2>Other networks${more.country === null ? '' : ` in ${countryText(more.country)}`}</h2>
<ul>${more.others.map(({ asn, name, live: count }) => html`<li><a href="${networkPath(asn)}">AS${asn} ${name}</a> <small>${count} live</small></li>\n`)}</ul>`
}
<p><a href="${root}">All networks</a> · <a href="/free-proxies">All live proxies</a></p>
${warning}
${attributionLine()}`
}

const networkView = async (networks: Networks, { params }: Visit) => {
  const asn = asnOf(params.asn ?? '')
  const record = asn === null ? null : await networks.one(asn)
  if (record === null) throw refuse('not_found', 'no network of this number is known')
  const path = networkPath(record.asn)
  if (params.asn !== `AS${record.asn}`) return { kind: 'redirect', to: path } as const
  const title = `AS${record.asn} ${record.name}`
  const { live } = record.counts
  const description = `Public proxies in AS${record.asn} (${record.name}): ${live === 0 ? 'none is live now' : `${live} live`}, ${record.counts.not_answering} that answered before, ${record.counts.never_answered} that never answered.`
  return show({
    title,
    indexed: {
      path,
      description,
      data: { '@type': 'Dataset', name: title, description, isAccessibleForFree: true },
    },
    body: bodyOf(record, await neighboursOf(networks, record.asn)),
    same: [`curl $SITE/api/networks/AS${record.asn}   # no key needed`],
  })
}

/** The networks of public proxies, and a page for each. */
export const networkPages = ({
  networks,
  note,
}: {
  readonly networks: Networks
  /** What the answers lack because of missing data; null: nothing. */
  readonly note: string | null
}): readonly ConsolePage[] => [
  openPage({
    path: '/networks',
    name: 'showNetworks',
    summary: 'Networks with public proxies',
    nav: { label: 'Networks', group: 'For everybody' },
    show: (visit) => list(networks, note, visit),
  }),
  openPage({
    path: '/networks/{asn}',
    name: 'showNetwork',
    summary: 'The proxies of a network, live and former',
    show: (visit) => networkView(networks, visit),
  }),
]
