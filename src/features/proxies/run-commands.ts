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

const factsOf = async (
  { pool, db, clock, config }: CliContext,
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
      db,
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
  fields: {
    proxy: 'proxyId',
    status: 'status',
    address: 'ip',
    'dialled at': (row) => `${row.host}:${row.ports.http}`,
    "supplier's proxy": 'endpoint',
    product: 'productId',
    order: 'orderId',
    country: 'country',
    city: 'city',
    network: (row) => (row.asn === null ? null : `AS${row.asn} ${row.asnOrg ?? ''}`.trim()),
    carrier: 'carrier',
    service: 'service',
    rotation: (row) => (row.rotationMinutes === null ? null : `${row.rotation} ${row.rotationMinutes}`),
    label: (row) => row.label || null,
    customer: 'customerId',
    'own id of the customer': 'customer',
    'period, days': 'periodDays',
    'created at': 'createdAt',
    'expires at': 'expiresAt',
    replaced: (row) => row.replacements.at(-1)?.reason,
  },
  columns: [
    'proxy',
    'status',
    'address',
    'product',
    'order',
    'country',
    'customer',
    'expires at',
    'replaced',
  ],
  more: ({ replacements }) =>
    Object.fromEntries(replacements.map((item, at) => [`replacement ${at + 1}`, replacementText(item)])),
}
