import { findEndpoint, listEndpoints, type WebhookEndpointRow } from '../../../projections/webhooks.ts'
import type { AccountId } from '../../kernel/ids.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import { createVault } from '../../platform/vault/seal.ts'
import type { ListedResource, Owned } from '../accounts/index.ts'
import { type WebhookRecord, webhookRecord } from './webhook-record.ts'
import { createWebhookValues } from './webhook-vault.ts'

/** The endpoints as the API shows them. The URL is empty if it was just erased. */
const recordsOf = async (
  { pool, keys }: CliContext,
  rows: readonly WebhookEndpointRow[],
): Promise<readonly Owned<WebhookRecord>[]> => {
  const values = createWebhookValues({ pool, vault: createVault(keys.master) })
  const urls = await values.read(rows.map((row) => ({ valueId: row.urlId, endpointId: row.endpointId })))
  return rows.map((row) => ({
    ...webhookRecord(row, urls.get(row.urlId) ?? ''),
    accountId: row.accountId as AccountId,
  }))
}

export const webhooks: ListedResource<WebhookRecord> = {
  owner: { table: 'read.webhook_endpoints', id: 'endpoint_id' },
  reads: (context) => {
    const { db } = context
    return {
      list: async ({ accountId }, page) => {
        const found = await listEndpoints(db, accountId, page)
        return { rows: await recordsOf(context, found.endpoints), total: found.total }
      },
      find: async (account, id) => {
        const found = await findEndpoint(db, account, id)
        return found ? ((await recordsOf(context, [found]))[0] ?? null) : null
      },
    }
  },
  fields: {
    webhook: 'id',
    status: 'status',
    'disabled because': 'disabledReason',
    'failing since': 'failingSince',
    url: 'url',
    events: (row) => row.events.join(' '),
    'created at': 'createdAt',
  },
  columns: ['webhook', 'status', 'failing since', 'url', 'created at'],
}
