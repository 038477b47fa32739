import type { AccountEvent } from '../../domain/accounts/events.ts'
import type { TermsEvent } from '../../domain/resellers/events.ts'
import type { DeliveryEvent, EndpointEvent } from '../../domain/webhooks/events.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import type { ReadModel, Table } from '../../platform/projections/read-model.ts'
import type { CommitmentSubject } from '../../platform/vault/seal.ts'
import { recordViolation } from './violation.ts'

/** A value of the vault that an event names; `digest` is null where the event, of an older release, commits to nothing. */
type Named = CommitmentSubject & { readonly digest: string | null }

type CommitmentRow = { position: number; what: string; id: string; owner: string; digest: string | null }

/** What `checks/vault-check.ts` holds against the vault. */
export const commitmentsTable: Table<CommitmentRow> = {
  name: 'audit_commitments',
  columns: {
    position: { type: 'bigint' },
    what: { type: 'text' },
    id: { type: 'text' },
    owner: { type: 'text' },
    digest: { type: 'text', nullable: true },
  },
  key: ['position', 'id'],
  indexes: [],
  appendOnly: true,
}

type Known = RecordedEvent<AccountEvent | TermsEvent | EndpointEvent>

/** Behind the first dash of a stream's name. */
const ownerOf = ({ stream }: RecordedEvent): string => stream.slice(stream.indexOf('-') + 1)

type OfEndpoint = { readonly endpointId: string }
const endpointValue = ({ endpointId }: OfEndpoint, id: string, digest: string | undefined): Named => ({
  what: 'webhook-value',
  id,
  owner: endpointId,
  digest: digest ?? null,
})
const url = (of: OfEndpoint & { readonly urlId: string; readonly urlCommitment?: string }): Named =>
  endpointValue(of, of.urlId, of.urlCommitment)
const secret = (of: OfEndpoint & { readonly secretId: string; readonly secretCommitment?: string }): Named =>
  endpointValue(of, of.secretId, of.secretCommitment)

const namedBy = (event: Known): readonly Named[] => {
  switch (event.type) {
    case 'KeyIssued': {
      const { keyId, commitment = null } = event.data
      return [{ what: 'api-key', id: keyId, owner: ownerOf(event), digest: commitment }]
    }
    case 'GatewaySet':
    case 'MessagingBotSet': {
      const { reference, commitment = null } = event.data
      return [{ what: 'reseller-credentials', id: reference, owner: ownerOf(event), digest: commitment }]
    }
    case 'EndpointRegistered':
      return [url(event.data), secret(event.data)]
    case 'EndpointChanged':
      return event.data.urlId === undefined ? [] : [url({ ...event.data, urlId: event.data.urlId })]
    case 'SecretRotated':
      return [secret(event.data)]
    default:
      return []
  }
}

/** What events commit to, of what stands in the vault: every event for itself, so that none takes another's back. */
export const commitmentRules: ReadModel = {
  name: 'audit-commitments',
  version: 2,
  tables: [commitmentsTable],
  takes: {
    types: new Set([
      'KeyIssued',
      'GatewaySet',
      'MessagingBotSet',
      'EndpointRegistered',
      'EndpointChanged',
      'SecretRotated',
    ]),
  },
  reads: () => [],
  apply: (event, rows) => {
    for (const named of namedBy(event as Known))
      rows.add(commitmentsTable, { position: event.position, ...named })
  },
}

/** A delivery that has not come to its end. */
type DeliveryRow = { stream: string; delivery_id: string; last_position: number }

export const deliveriesTable: Table<DeliveryRow> = {
  name: 'audit_deliveries',
  columns: { stream: { type: 'text' }, delivery_id: { type: 'text' }, last_position: { type: 'bigint' } },
  key: ['stream'],
  indexes: [],
}

const deliveryPrefix = 'delivery-'
const isDelivery = (event: RecordedEvent): event is RecordedEvent<DeliveryEvent> =>
  event.stream.startsWith(deliveryPrefix)

/** A delivery that is under way ends once: what comes out of it is of one that was asked for, and is asked for again after that. */
export const deliveryRules: ReadModel = {
  name: 'audit-deliveries',
  version: 1,
  tables: [deliveriesTable],
  takes: { types: new Set(), streams: new Set([deliveryPrefix]) },
  reads: (event) => (isDelivery(event) ? [{ table: deliveriesTable.name, key: [event.stream] }] : []),
  apply: (event, rows) => {
    if (!isDelivery(event)) return
    const { stream, position, type } = event
    const { deliveryId } = event.data
    const row = rows.get(deliveriesTable, [stream])
    const say = (problem: string): void => recordViolation(rows, event, 'delivery', problem)
    if (type === 'WebhookEnqueued' || type === 'WebhookRequeued') {
      if (row !== undefined) say('it is under way already')
      rows.put(deliveriesTable, { stream, delivery_id: deliveryId, last_position: position })
      return
    }
    if (row === undefined) say('nothing is under way here that could end so')
    else if (row.delivery_id !== deliveryId) say(`it is ${row.delivery_id} that is under way here`)
    rows.remove(deliveriesTable, [stream])
  },
}
