import { ApiError, refuse } from '../../platform/http/errors.ts'
import type { View } from '../../platform/ui/frame.ts'
import { html } from '../../platform/ui/html.ts'
import { listOf } from '../../platform/ui/list.ts'
import { type ConsolePage, goTo, openPage, type PageOutcome, type Visit } from '../../platform/ui/page.ts'
import { countColumn, detailsOf, nameColumn, tableOf } from '../../platform/ui/table.ts'
import { countText, queryText, timeText } from '../../platform/ui/text.ts'
import {
  attributionLine,
  countryField,
  countryFilter,
  countryText,
  networkPath,
  proxyColumns,
  warning,
} from '../free-list/index.ts'
import type { Network, NetworkRecord } from './rank-networks.ts'
import { asnOf, maxNetworkRows, type Networks } from './rank-networks.ts'

const root = '/networks'
const pageRows = 100
/** Links to other networks on a network's page. */
const neighbours = 12

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
  return html`${note === null ? null : html`<p class="message warn" role="status">${note}.</p>`}
${detailsOf([
  ['Live', countText(counts.live, 'proxy', 'proxies')],
  ['Not answering now', `${countText(counts.not_answering, 'endpoint')}, checked regularly`],
  ['Never answered', countText(counts.never_answered, 'address', 'addresses')],
])}
${
  counts.live === 0
    ? null
    : html`<h2>Live${first(counts.live)}</h2>
${tableOf({ caption: 'Live proxies of the network', rows: live, columns: proxyColumns(false) })}`
}
${
  unresponsive.length === 0
    ? null
    : html`<h2>Answered before${first(counts.not_answering)}</h2>
${tableOf({
  caption: 'Endpoints that answered before, latest answer first',
  rows: unresponsive,
  columns: [
    { title: 'Endpoint', head: true, cell: ({ endpoint }) => html`<code class="id">${endpoint}</code>` },
    { title: 'Location', cell: ({ location }) => location ?? 'unknown' },
    { title: 'Last answer', cell: ({ last_answered }) => last_answered },
    { title: 'Successful checks', number: true, cell: ({ answered }) => answered },
  ],
})}`
}
${
  neverAnswered.length === 0
    ? null
    : html`<h2>Never answered${first(counts.never_answered)}</h2>
${tableOf({
  caption: 'Addresses that never answered, latest check first',
  rows: neverAnswered,
  columns: [
    { title: 'Address', head: true, cell: ({ address }) => html`<code class="id">${address}</code>` },
    { title: 'Checks', number: true, cell: ({ tests }) => tests },
    { title: 'Last check', cell: ({ last_tested }) => last_tested },
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

const networkView = async (networks: Networks, { params }: Visit): Promise<View | PageOutcome> => {
  const asn = asnOf(params.asn ?? '')
  const record = asn === null ? null : await networks.one(asn)
  if (record === null) throw refuse('not_found', 'no network of this number is known')
  const path = networkPath(record.asn)
  if (params.asn !== `AS${record.asn}`) return goTo(path)
  const title = `AS${record.asn} ${record.name}`
  const { live } = record.counts
  const description = `Public proxies in AS${record.asn} (${record.name}): ${live === 0 ? 'none is live now' : `${live} live`}, ${record.counts.not_answering} that answered before, ${record.counts.never_answered} that never answered.`
  return {
    title,
    indexed: {
      path,
      description,
      data: { '@type': 'Dataset', name: title, description, isAccessibleForFree: true },
    },
    body: bodyOf(record, await neighboursOf(networks, record.asn)),
    cliEquivalents: [`curl $SITE/api/networks/AS${record.asn}   # no key needed`],
  }
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
    show: async (visit) => {
      const { country, message } = countryFilter(visit.query)
      const { networks: all, countedAt } = await networks.all(country)
      const title = `Networks with public proxies${country === undefined ? '' : ` in ${countryText(country)}`}`
      const values = queryText(country === undefined ? {} : { country })
      const description = `${countText(all.length, 'network')} (autonomous systems) with public proxies: how many are live, do not answer now, or never answered.`
      const list = await listOf(visit, {
        caption: 'Networks, most live proxies first',
        filters: { country: countryField },
        search: 'Name or number',
        rows: () => all,
        limit: pageRows,
        empty: 'There are no known endpoints yet.',
        columns: (_) => [
          nameColumn('Network', ({ asn, name }) => ({
            text: `AS${asn}`,
            href: networkPath(asn),
            note: name,
          })),
          {
            title: 'Location',
            place: 'plain',
            value: ({ country_code }) => countryText(country_code),
            cell: ({ country_code }) =>
              country_code === null
                ? 'unknown'
                : html`<a href="${root}?country=${country_code}">${countryText(country_code)}</a>`,
          },
          countColumn('Live', ({ live }) => live),
          countColumn('Not answering now', ({ not_answering }) => not_answering),
          countColumn('Never answered', ({ never_answered }) => never_answered),
        ],
      })
      return {
        title,
        indexed: {
          path: `${root}${values}`,
          description,
          data: {
            '@type': 'Dataset',
            name: title,
            description,
            isAccessibleForFree: true,
            dateModified: countedAt,
          },
        },
        body: html`${message}
${list.body}
<p class="soft">Live proxies are counted now, the others at ${timeText(countedAt)}.</p>
<p><a href="/free-proxies">All live proxies</a></p>
${note === null ? null : html`<p class="soft">${note}.</p>`}
${attributionLine()}`,
        cliEquivalents: [`curl "$SITE/api/networks${values}"   # no key needed`],
      }
    },
  }),
  openPage({
    path: '/networks/{asn}',
    name: 'showNetwork',
    summary: 'The proxies of a network, live and former',
    show: (visit) => networkView(networks, visit),
  }),
]
