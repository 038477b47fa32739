import type { WebhookEventName } from '../src/outbound/webhooks/event-names.ts'
import type { EndpointEvent } from '../src/outbound/webhooks/events.ts'
import type { RecordedEvent } from '../src/platform/eventstore/event.ts'
import type { ReadModel, Table } from './engine/read-model.ts'

/** One webhook endpoint. Its URL and secrets stand in the vault under these ids. */
export type WebhookEndpointRow = {
  readonly endpoint_id: string
  readonly account_id: string
  readonly status: 'active' | 'disabled'
  /** Why the service disabled it; null while active or when its owner disabled it. */
  readonly disabled_reason: 'gone' | 'failing' | null
  /** Null: all. */
  readonly events: readonly WebhookEventName[] | null
  readonly url_id: string
  readonly secret_id: string
  readonly previous_secret_id: string | null
  readonly previous_until: string | null
  readonly created_at: string
}

const webhookEndpointsTable: Table<WebhookEndpointRow> = {
  name: 'webhook_endpoints',
  columns: {
    endpoint_id: { type: 'text' },
    account_id: { type: 'text' },
    status: { type: 'text' },
    disabled_reason: { type: 'text', nullable: true },
    events: { type: 'text[]', nullable: true },
    url_id: { type: 'text' },
    secret_id: { type: 'text' },
    previous_secret_id: { type: 'text', nullable: true },
    previous_until: { type: 'timestamptz', nullable: true },
    created_at: { type: 'timestamptz' },
  },
  key: ['endpoint_id'],
  indexes: ['account_id, created_at desc, endpoint_id desc'],
}

const endpointEvents: ReadonlySet<string> = new Set<EndpointEvent['type']>([
  'EndpointRegistered',
  'EndpointChanged',
  'EndpointDisabled',
  'EndpointRemoved',
  'SecretRotated',
])

const isEndpointEvent = (event: RecordedEvent): event is RecordedEvent<EndpointEvent> =>
  endpointEvents.has(event.type)

/** The endpoints that were not removed. */
export const webhooks: ReadModel = {
  name: 'webhooks',
  version: 1,
  tables: [webhookEndpointsTable],
  reads: (event) =>
    isEndpointEvent(event) && event.type !== 'EndpointRegistered'
      ? [{ table: webhookEndpointsTable.name, key: [event.data.endpointId] }]
      : [],
  apply: (event, rows) => {
    if (!isEndpointEvent(event)) return
    const { endpointId } = event.data
    if (event.type === 'EndpointRegistered') {
      const { accountId, events, urlId, secretId } = event.data
      return rows.put(webhookEndpointsTable, {
        endpoint_id: endpointId,
        account_id: accountId,
        status: 'active',
        disabled_reason: null,
        events,
        url_id: urlId,
        secret_id: secretId,
        previous_secret_id: null,
        previous_until: null,
        created_at: event.metadata.recordedAt,
      })
    }
    const row = rows.get(webhookEndpointsTable, [endpointId])
    if (!row) throw new Error(`${event.type} on the endpoint ${endpointId}, which is not there`)
    switch (event.type) {
      case 'EndpointChanged': {
        const { events = row.events, urlId = row.url_id, status = row.status } = event.data
        const disabled_reason = status === row.status ? row.disabled_reason : null
        return rows.put(webhookEndpointsTable, { ...row, events, url_id: urlId, status, disabled_reason })
      }
      case 'EndpointDisabled':
        return rows.put(webhookEndpointsTable, {
          ...row,
          status: 'disabled',
          disabled_reason: event.data.reason,
        })
      case 'EndpointRemoved':
        return rows.remove(webhookEndpointsTable, [endpointId])
      case 'SecretRotated': {
        const { secretId, previousSecretId, previousUntil } = event.data
        return rows.put(webhookEndpointsTable, {
          ...row,
          secret_id: secretId,
          previous_secret_id: previousSecretId,
          previous_until: previousUntil,
        })
      }
      default: {
        const unknown: never = event
        throw new Error(`unknown endpoint event ${JSON.stringify(unknown)}`)
      }
    }
  },
}
