import type { AccountEvent } from '../../domain/accounts/events.ts'
import type { DepositOpened } from '../../domain/deposits/events.ts'
import type { FinanceTokenEvent } from '../../domain/finance/tokens.ts'
import type { WhitelistEvent } from '../../domain/plans/whitelist.ts'
import type { TermsEvent } from '../../domain/resellers/events.ts'
import type { AdoptionEvent } from '../../domain/seals/adoption.ts'
import type { PersonEvent } from '../../domain/staff/events.ts'
import type { DeliveryEvent, EndpointEvent } from '../../domain/webhooks/events.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import type { ReadModel, Rows, Table } from '../../platform/projections/read-model.ts'
import type { CommitmentSubject } from '../../platform/vault/seal.ts'
import { recordViolation } from './violation.ts'

/**
 * A value of the vault that an event names; `digest` is null when the event, from an older release, has no commitment.
 */
type NamedValue = CommitmentSubject & {
  readonly digest: string | null
  /** Further facts of the row in the event; omitted: none. */
  readonly detail?: string
  /** Committed to by an upgrade, not at creation. */
  readonly adopted?: true
}

type CommitmentRow = {
  position: number
  what: string
  id: string
  owner: string
  digest: string | null
  detail: string | null
  adopted: boolean
}

/** The commitments that `checks/vault-check.ts` compares with the vault. */
export const commitmentsTable: Table<CommitmentRow> = {
  name: 'audit_commitments',
  columns: {
    position: { type: 'bigint' },
    what: { type: 'text' },
    id: { type: 'text' },
    owner: { type: 'text' },
    digest: { type: 'text', nullable: true },
    detail: { type: 'text', nullable: true },
    adopted: { type: 'boolean' },
  },
  key: ['position', 'id'],
  indexes: [],
  appendOnly: true,
}

/**
 * The end of the adoption by an upgrade. The first event that ends it adds a row: one row for whitelists, and one for
 * everything else.
 */
type AdoptionRow = { id: string; position: number }

const adoptionTable: Table<AdoptionRow> = {
  name: 'audit_adoption',
  columns: { id: { type: 'text' }, position: { type: 'bigint' } },
  key: ['id'],
  indexes: [],
}

type CommitmentEvent = RecordedEvent<
  | AccountEvent
  | TermsEvent
  | EndpointEvent
  | DepositOpened
  | PersonEvent
  | FinanceTokenEvent
  | WhitelistEvent
  | AdoptionEvent
>

/** The part of a stream's name after the first dash. */
const ownerOf = ({ stream }: RecordedEvent): string => stream.slice(stream.indexOf('-') + 1)

type EndpointRef = { readonly endpointId: string }
const endpointValue = ({ endpointId }: EndpointRef, id: string, digest: string | undefined): NamedValue => ({
  what: 'webhook-value',
  id,
  owner: endpointId,
  digest: digest ?? null,
})
const urlValue = (
  endpoint: EndpointRef & { readonly urlId: string; readonly urlCommitment?: string },
): NamedValue => endpointValue(endpoint, endpoint.urlId, endpoint.urlCommitment)
const secretValue = (
  endpoint: EndpointRef & { readonly secretId: string; readonly secretCommitment?: string },
): NamedValue => endpointValue(endpoint, endpoint.secretId, endpoint.secretCommitment)

/** The subjects of an allowed and a removed whitelist entry, each identified by its commitment. */
export const [allowedEntry, removedEntry] = ['whitelist-entry', 'removed-whitelist-entry'] as const
const allowedValue = (event: CommitmentEvent, commitment: string): NamedValue => ({
  what: allowedEntry,
  id: commitment,
  owner: ownerOf(event),
  digest: commitment,
})

const valuesNamedBy = (event: CommitmentEvent): readonly NamedValue[] => {
  switch (event.type) {
    case 'KeyIssued': {
      const { keyId, commitment = null } = event.data
      return [{ what: 'api-key', id: keyId, owner: ownerOf(event), digest: commitment }]
    }
    case 'AccountCreated': {
      const { accountId, emailCommitment = null } = event.data
      return [{ what: 'account-email', id: accountId, owner: ownerOf(event), digest: emailCommitment }]
    }
    case 'AccountCommitmentsAdopted': {
      const { accountId, emailCommitment, keys } = event.data
      const owner = ownerOf(event)
      return [
        ...(emailCommitment === null
          ? []
          : [
              {
                what: 'account-email',
                id: accountId,
                owner,
                digest: emailCommitment,
                adopted: true,
              } as const,
            ]),
        ...keys.map(
          ({ keyId, commitment }) =>
            ({ what: 'api-key', id: keyId, owner, digest: commitment, adopted: true }) as const,
        ),
      ]
    }
    case 'StaffRoleGranted': {
      const { staffId, emailCommitment = null } = event.data
      return [{ what: 'staff-email', id: staffId, owner: ownerOf(event), digest: emailCommitment }]
    }
    case 'PasskeyAdded': {
      const { passkeyId, commitment = null } = event.data
      return [{ what: 'passkey', id: passkeyId, owner: ownerOf(event), digest: commitment }]
    }
    case 'PersonCommitmentsAdopted': {
      const { subjectId, emailCommitment, passkeys } = event.data
      const owner = ownerOf(event)
      return [
        ...(emailCommitment === null
          ? []
          : [{ what: 'staff-email', id: subjectId, owner, digest: emailCommitment, adopted: true } as const]),
        ...passkeys.map(
          ({ passkeyId, commitment }) =>
            ({ what: 'passkey', id: passkeyId, owner, digest: commitment, adopted: true }) as const,
        ),
      ]
    }
    case 'FinanceTokenIssued': {
      const { tokenId, commitment = null } = event.data
      return [{ what: 'finance-token', id: tokenId, owner: event.stream, digest: commitment }]
    }
    case 'FinanceTokenCommitmentsAdopted':
      return event.data.tokens.map(({ tokenId, commitment }) => ({
        what: 'finance-token',
        id: tokenId,
        owner: event.stream,
        digest: commitment,
        adopted: true,
      }))
    case 'GatewaySet':
    case 'MessagingBotSet': {
      const { reference, provider, commitment = null } = event.data
      const purpose = event.type === 'GatewaySet' ? event.data.rail : 'bot'
      const detail = `${purpose} ${provider}`
      return [
        { what: 'reseller-credentials', id: reference, owner: ownerOf(event), digest: commitment, detail },
      ]
    }
    // The addresses are signed, not committed to. Only the owner is checked (`checkDepositPages`).
    case 'DepositOpened': {
      const { depositId, accountId, customerId } = event.data
      const pages = { what: 'deposit-pages', id: depositId, owner: accountId, digest: null }
      return [customerId === null ? pages : { ...pages, detail: customerId }]
    }
    case 'EndpointRegistered':
      return [urlValue(event.data), secretValue(event.data)]
    case 'EndpointChanged':
      return event.data.urlId === undefined ? [] : [urlValue({ ...event.data, urlId: event.data.urlId })]
    case 'SecretRotated':
      return [secretValue(event.data)]
    // `checkWhitelist` compares the rows with the accounts' streams. Here they are only counted.
    case 'NetworkAllowed':
      return [allowedValue(event, event.data.commitment)]
    case 'NetworksAdopted':
      return event.data.entries.map(({ commitment }) => ({
        ...allowedValue(event, commitment),
        adopted: true,
      }))
    case 'NetworkRemoved':
      return [{ ...allowedValue(event, event.data.commitment), what: removedEntry }]
    default:
      return []
  }
}

const adoptionTypes: ReadonlySet<string> = new Set([
  'AccountCommitmentsAdopted',
  'PersonCommitmentsAdopted',
  'FinanceTokenCommitmentsAdopted',
  'NetworksAdopted',
])
/** Whitelists have their own adoption. Everything else was adopted by versions before the release of 0.2.0. */
const whitelistTypes: ReadonlySet<string> = new Set([
  'NetworksAdopted',
  'NetworkAllowed',
  'WhitelistsAdopted',
])
const adoptionOf = ({ type }: RecordedEvent): string => (whitelistTypes.has(type) ? 'whitelists' : 'over')
/** Events of releases that adopt first. GatewaySet and similar events already had commitments long before. */
const endsAdoption = (event: CommitmentEvent, namedValues: readonly NamedValue[]): boolean =>
  event.type === 'CommitmentsAdopted' ||
  event.type === 'WhitelistsAdopted' ||
  event.type === 'NetworkAllowed' ||
  ((event.type === 'AccountCreated' ||
    event.type === 'StaffRoleGranted' ||
    event.type === 'PasskeyAdded' ||
    event.type === 'FinanceTokenIssued') &&
    namedValues.some(({ digest }) => digest !== null))

const checkAdoption = (event: CommitmentEvent, namedValues: readonly NamedValue[], rows: Rows): void => {
  const isAdoption = adoptionTypes.has(event.type)
  const isEnd = endsAdoption(event, namedValues)
  if (!isAdoption && !isEnd) return
  const adoption = adoptionOf(event)
  const endRow = rows.get(adoptionTable, [adoption])
  if (isAdoption) {
    const { actor } = event.metadata
    if (endRow !== undefined)
      recordViolation(
        rows,
        event,
        'adopted-late',
        `an upgrade adopts before anything else, and was over at position ${endRow.position}`,
      )
    if (actor.kind !== 'system' || actor.name !== 'upgrade')
      recordViolation(rows, event, 'adopted-by', 'only an upgrade adopts what older releases left')
  }
  if (endRow === undefined && isEnd) rows.put(adoptionTable, { id: adoption, position: event.position })
}

const commitmentTypes: ReadonlySet<string> = new Set([
  'KeyIssued',
  'DepositOpened',
  'GatewaySet',
  'MessagingBotSet',
  'EndpointRegistered',
  'EndpointChanged',
  'SecretRotated',
  'AccountCreated',
  'StaffRoleGranted',
  'PasskeyAdded',
  'FinanceTokenIssued',
  'CommitmentsAdopted',
  'NetworkAllowed',
  'NetworkRemoved',
  'WhitelistsAdopted',
  ...adoptionTypes,
])

/**
 * Collects the commitments of events to rows of the vault, one per event, so that no event removes another's. Data of
 * older releases is adopted once, before an event of a newer release has a commitment.
 */
export const commitmentRules: ReadModel = {
  name: 'audit-commitments',
  version: 5,
  tables: [commitmentsTable, adoptionTable],
  takes: { types: commitmentTypes },
  reads: (event) =>
    commitmentTypes.has(event.type) ? [{ table: adoptionTable.name, key: [adoptionOf(event)] }] : [],
  apply: (recorded, rows) => {
    const event = recorded as CommitmentEvent
    const namedValues = valuesNamedBy(event)
    checkAdoption(event, namedValues, rows)
    for (const namedValue of namedValues)
      rows.add(commitmentsTable, { position: event.position, detail: null, adopted: false, ...namedValue })
  },
}

/** A delivery that has not ended. */
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

/** A requested delivery ends once. Its end names the requested delivery, and a further end needs another request. */
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
    const report = (problem: string): void => recordViolation(rows, event, 'delivery', problem)
    if (type === 'WebhookEnqueued' || type === 'WebhookRequeued') {
      if (row !== undefined) report('it is under way already')
      rows.put(deliveriesTable, { stream, delivery_id: deliveryId, last_position: position })
      return
    }
    if (row === undefined) report('nothing is under way here that could end so')
    else if (row.delivery_id !== deliveryId) report(`it is ${row.delivery_id} that is under way here`)
    rows.remove(deliveriesTable, [stream])
  },
}
