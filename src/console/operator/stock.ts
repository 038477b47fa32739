import { type PoolKey, poolsAfter } from '../../market/stock/pools.ts'
import { html } from '../../platform/pages/html.ts'
import { stateText } from '../customer/words.ts'
import { pagedOf, pageRows, pagerOf, tableOf } from '../frame/table.ts'
import { type ConsolePage, type PersonVisit, personPage, show } from '../pages/page.ts'
import type { OperatorDeps } from './deps.ts'

const path = '/console/operator/stock'

const keyText = ({ productId, country, carrierId, service }: PoolKey): string =>
  [productId, country, carrierId ?? '', service ?? ''].join('~')

const keyOf = (text: string | null): PoolKey | null => {
  const [productId, country, carrierId, service, ...more] = (text ?? '').split('~')
  return productId === undefined || country === undefined || service === undefined || more.length > 0
    ? null
    : { productId, country, carrierId: carrierId || null, service: service || null }
}

const stock = async (deps: OperatorDeps, { query }: PersonVisit) => {
  const before = query.get('before')
  const after = keyOf(before)
  await deps.caughtUp()
  const found = await poolsAfter(deps, { after, limit: pageRows + 1 })
  const { rows, next } = pagedOf(found, keyText)
  return show({
    title: 'Stock',
    acts: html`<a class="button first" href="${path}/add">Add addresses</a>`,
    body: html`<p>Addresses that dedicated products are sold from. One that was given back rests for a quarter of an hour before it is sold again.</p>
${tableOf({
  caption: 'Pools of addresses, by product and country',
  rows,
  empty: html`<p>${after === null ? 'Nothing is stocked.' : 'No pool follows.'}</p>`,
  columns: [
    { title: 'Product', head: true, cell: ({ productId }) => productId },
    { title: 'Country', cell: ({ country }) => country },
    {
      title: 'Line',
      cell: ({ carrierId, service }) => [carrierId, service].filter((word) => word !== null).join(', '),
    },
    { title: 'In stock', number: true, cell: ({ total }) => String(total) },
    { title: 'Rented', number: true, cell: ({ rented }) => String(rented) },
    { title: 'Resting', number: true, cell: ({ resting }) => String(resting) },
    { title: 'Free', number: true, cell: ({ available }) => String(available) },
    {
      title: 'State',
      cell: ({ available }) =>
        available > 0 ? stateText('for sale', 'good') : stateText('sold out', 'warn'),
    },
  ],
})}
${pagerOf(path, {}, { before: after === null ? null : before, next }, { first: 'From the start', next: 'More pools' })}`,
    same: ['npx farebox stock list', 'npx farebox stock add --file FILE'],
  })
}

/** What is in stock, by pool. */
export const stockPages = (deps: OperatorDeps): readonly ConsolePage[] => [
  personPage({
    path,
    name: 'showStock',
    summary: 'Pools of dedicated addresses: in stock, rented, resting, free',
    for: ['operator'],
    nav: { label: 'Stock', group: 'Operator' },
    show: (visit) => stock(deps, visit),
  }),
]
