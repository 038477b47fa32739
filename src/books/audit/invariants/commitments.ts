import type { ReadModel, Table } from '../../../../projections/engine/read-model.ts'
import type { AccountEvent } from '../../../market/accounts/events.ts'
import type { TermsEvent } from '../../../market/resellers/events.ts'
import type { EndpointEvent } from '../../../outbound/webhooks/events.ts'
import type { RecordedEvent } from '../../../platform/eventstore/event.ts'
import type { Committed } from '../../../platform/vault/commitment.ts'

/** A value of the vault that an event names; `digest` is null where the event, of an older release, commits to nothing. */
type Named = Committed & { readonly digest: string | null }

type CommitmentRow = { position: number; what: string; id: string; owner: string; digest: string | null }

/** What `verify/vault-check.ts` holds against the vault. */
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
