import { type FoundProxy, findProxies, listProxies, type ProxyStatus } from '../../../projections/proxies.ts'
import type { StockedEndpoint } from '../../domain/stock/events.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { type ListScope, wholeAccount } from '../../kernel/scopes.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import { customerRefs, type ListedResource, type Owned } from '../accounts/index.ts'
import { type ProxyFacts, proxyFacts } from './proxy-record.ts'
import { type Replacement, readReplacements } from './replace-address.ts'

/** A rental for its operator: with its supplier's endpoint and its replacements. */
type ListedProxy = ProxyFacts & {
  readonly endpoint: string | null
  readonly replacements: readonly Replacement[]
}

const endpointText = ({ protocol, host, port }: StockedEndpoint): string => `${protocol}://${host}:${port}`

const replacementText = ({ replacedAt, reason, formerIp, comment }: Replacement): string =>
  `${replacedAt} ${reason}, was ${formerIp}${comment === null ? '' : `: ${comment}`}`

/** One field for each replacement, numbered from the oldest on. */
const replacementFields = (replacements: readonly Replacement[]): Record<string, string> =>
  Object.fromEntries(replacements.map((item, at) => [`replacement ${at + 1}`, replacementText(item)]))

const factsOf = async (
  { pool, clock, config }: CliContext,
  { accountId }: ListScope,
  rows: readonly FoundProxy[],
): Promise<readonly Owned<ListedProxy>[]> => {
  const [refs, replaced] = await Promise.all([
    customerRefs(
      pool,
      accountId,
      rows.map((row) => row.customerId),
    ),
    readReplacements(
      pool,
      rows.map((row) => row.proxyId),
    ),
  ])
  return rows.map((row) => ({
    ...proxyFacts(row, clock(), refs.get(row.customerId) ?? null, config.gateway),
    endpoint: row.endpoint && endpointText(row.endpoint),
    replacements: replaced.get(row.proxyId) ?? [],
    accountId: row.accountId as AccountId,
  }))
}

export const proxies: ListedResource<ListedProxy> = {
  owner: { table: 'read.proxies', id: 'proxy_id' },
  reads: (context) => {
    const { db } = context
    return {
      list: async (scope, { limit, offset, status }) => {
        const filter = { status: status as ProxyStatus | undefined }
        const found = await listProxies(db, scope, filter, { limit, offset }, context.clock())
        return { rows: await factsOf(context, scope, found.proxies), total: found.total }
      },
      find: async (account, id) => {
        const scope = wholeAccount(account)
        const found = await findProxies(db, scope, { proxyIds: [id] }, context.clock(), 1)
        return (await factsOf(context, scope, found))[0] ?? null
      },
    }
  },
  columns: [
    { title: 'proxy', value: (row) => row.proxyId },
    { title: 'address', value: (row) => row.ip },
    { title: 'country', value: (row) => row.country },
    { title: 'status', value: (row) => row.status },
    { title: 'product', value: (row) => row.productId },
    { title: 'order', value: (row) => row.orderId },
    { title: 'replaced', value: ({ replacements }) => replacements.at(-1)?.reason ?? '-' },
    { title: 'expires', value: (row) => row.expiresAt },
    { title: 'customer', value: (row) => row.customer ?? row.customerId ?? '-' },
  ],
  show: (row) => ({
    proxy: row.proxyId,
    status: row.status,
    address: row.ip,
    'dialled at': `${row.host}:${row.ports.http}`,
    "supplier's proxy": row.endpoint,
    product: row.productId,
    order: row.orderId,
    country: row.country,
    city: row.city,
    network: row.asn === null ? null : `AS${row.asn} ${row.asnOrg ?? ''}`.trim(),
    carrier: row.carrier,
    service: row.service,
    rotation: row.rotationMinutes === null ? null : `${row.rotation} ${row.rotationMinutes}`,
    label: row.label === '' ? null : row.label,
    customer: row.customerId,
    'own id of the customer': row.customer,
    'period, days': row.periodDays,
    'created at': row.createdAt,
    'expires at': row.expiresAt,
    ...replacementFields(row.replacements),
  }),
}
