import type { Kysely } from 'kysely'
import type { ReadDatabase } from '../../../projections/database.ts'
import type { Reads } from '../../../projections/engine/reads.ts'
import type { WebhookEndpointRow } from '../../../projections/webhooks.ts'
import type { AccountId } from '../../kernel/ids.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { webhooksStream } from '../../terms/streams.ts'
import { findEndpoint } from './queries.ts'
import { type WebhookRecord, webhookRecord } from './record.ts'
import { notFound } from './route-parts.ts'
import type { WebhookValues } from './vault.ts'

type Owner = { readonly accountId: AccountId }

/** An account's endpoints as its requests see them: its own writes first, whichever process took them. */
export type EndpointReads = {
  /** What any process wrote of the account's endpoints, and what the client has seen, is readable from here on. */
  settled(owner: Owner, after: number | null): Promise<void>
  /** @throws not_found for an absent and a foreign one alike */
  endpointOf(owner: Owner, id: string, after: number | null): Promise<WebhookEndpointRow>
  /** @throws not_found */
  recordOf(owner: Owner, id: string, after: number | null): Promise<WebhookRecord>
}

export const createEndpointReads = (deps: {
  readonly reads: Pick<Reads, 'settled'>
  readonly log: Pick<EventLog, 'lastOf'>
  readonly values: Pick<WebhookValues, 'read'>
  readonly db: Kysely<ReadDatabase>
}): EndpointReads => {
  const { reads, log, values, db } = deps

  const settled: EndpointReads['settled'] = async ({ accountId }, after) => {
    const last = await log.lastOf(webhooksStream(accountId))
    await reads.settled(accountId, Math.max(after ?? 0, last?.position ?? 0))
  }

  const endpointOf: EndpointReads['endpointOf'] = async (owner, id, after) => {
    await settled(owner, after)
    const row = await findEndpoint(db, owner.accountId, id)
    if (!row) throw notFound()
    return row
  }

  return {
    settled,
    endpointOf,
    recordOf: async (owner, id, after) => {
      const row = await endpointOf(owner, id, after)
      const url = (await values.read([row.url_id])).get(row.url_id)
      // Erased a moment ago: it is being removed.
      if (url === undefined) throw notFound()
      return webhookRecord(row, url)
    },
  }
}
