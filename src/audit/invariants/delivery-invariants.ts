import { column, nullable, type RowOf, readTable } from '../../platform/projections/read-model.ts'
import type { CommitmentSubject } from '../../platform/vault/seal.ts'
import { type Context, eventRules, invariant, type Recorded, rowKey, subjectOf } from './invariant.ts'

/** The commitments that `checks/vault-check.ts` compares with the vault. */
export const commitmentsTable = readTable({
  name: 'audit_commitments',
  columns: {
    position: column.bigint(),
    what: column.text(),
    id: column.text(),
    owner: column.text(),
    /** Null when the event, from an older release, has no commitment. */
    digest: nullable(column.text()),
    /** Further facts of the row in the event; null: none. */
    detail: nullable(column.text()),
    /** Committed to by an upgrade, not at creation. */
    adopted: column.boolean(),
  },
  key: ['position', 'id'],
  appendOnly: true,
})

/**
 * The end of the adoption by an upgrade. The first event that ends it adds a row: one row for whitelists, and one for
 * everything else.
 */
const adoptionTable = readTable({
  name: 'audit_adoption',
  columns: { id: column.text(), position: column.bigint() },
  key: ['id'],
})

/** The subjects of an allowed and a removed whitelist entry, each identified by its commitment. */
export const [allowedEntry, removedEntry] = ['whitelist-entry', 'removed-whitelist-entry'] as const

/** A value of the vault that an event names. */
type NamedValue = Partial<RowOf<typeof commitmentsTable>> &
  Pick<CommitmentSubject, 'what' | 'id'> & { readonly digest: string | null }

type AdoptingType =
  | 'AccountCommitmentsAdopted'
  | 'PersonCommitmentsAdopted'
  | 'FinanceTokenCommitmentsAdopted'
  | 'NetworksAdopted'
type CommitmentType =
  | AdoptingType
  | 'AccountCreated'
  | 'CommitmentsAdopted'
  | 'DepositOpened'
  | 'EndpointChanged'
  | 'EndpointRegistered'
  | 'FinanceTokenIssued'
  | 'GatewaySet'
  | 'KeyIssued'
  | 'MessagingBotSet'
  | 'NetworkAllowed'
  | 'NetworkRemoved'
  | 'PasskeyAdded'
  | 'SecretRotated'
  | 'StaffRoleGranted'
  | 'WhitelistsAdopted'

const value = (what: string, id: string, digest: string | null | undefined, more = {}): NamedValue => ({
  what,
  id,
  digest: digest ?? null,
  ...more,
})
const emailValue = (what: string, id: string, digest: string | null): readonly NamedValue[] =>
  digest === null ? [] : [value(what, id, digest)]
const credentialsValue = (
  purpose: string,
  {
    reference,
    provider,
    commitment,
  }: { readonly reference: string; readonly provider: string; readonly commitment?: string },
): readonly NamedValue[] => [
  value('reseller-credentials', reference, commitment, { detail: `${purpose} ${provider}` }),
]
const webhookValue = (owner: string, id: string, digest: string | undefined): NamedValue =>
  value('webhook-value', id, digest, { owner })

/** The values that each type of event names. Their owner is the stream's subject, unless stated. */
const valuesNamedBy: {
  readonly [Type in CommitmentType]: (event: Recorded<Type>) => readonly NamedValue[]
} = {
  KeyIssued: ({ data }) => [value('api-key', data.keyId, data.commitment)],
  AccountCreated: ({ data }) => [value('account-email', data.accountId, data.emailCommitment)],
  AccountCommitmentsAdopted: ({ data: { accountId, emailCommitment, keys } }) => [
    ...emailValue('account-email', accountId, emailCommitment),
    ...keys.map(({ keyId, commitment }) => value('api-key', keyId, commitment)),
  ],
  StaffRoleGranted: ({ data }) => [value('staff-email', data.staffId, data.emailCommitment)],
  PasskeyAdded: ({ data }) => [value('passkey', data.passkeyId, data.commitment)],
  PersonCommitmentsAdopted: ({ data: { subjectId, emailCommitment, passkeys } }) => [
    ...emailValue('staff-email', subjectId, emailCommitment),
    ...passkeys.map(({ passkeyId, commitment }) => value('passkey', passkeyId, commitment)),
  ],
  FinanceTokenIssued: ({ data, stream: owner }) => [
    value('finance-token', data.tokenId, data.commitment, { owner }),
  ],
  FinanceTokenCommitmentsAdopted: ({ data, stream: owner }) =>
    data.tokens.map(({ tokenId, commitment }) => value('finance-token', tokenId, commitment, { owner })),
  GatewaySet: ({ data }) => credentialsValue(data.rail, data),
  MessagingBotSet: ({ data }) => credentialsValue('bot', data),
  // The addresses are signed, not committed to. Only the owner is checked (`checkDepositPages`).
  DepositOpened: ({ data: { depositId, accountId: owner, customerId: detail } }) => [
    value('deposit-pages', depositId, null, { owner, detail }),
  ],
  EndpointRegistered: ({ data }) => [
    webhookValue(data.endpointId, data.urlId, data.urlCommitment),
    webhookValue(data.endpointId, data.secretId, data.secretCommitment),
  ],
  EndpointChanged: ({ data }) =>
    data.urlId === undefined ? [] : [webhookValue(data.endpointId, data.urlId, data.urlCommitment)],
  SecretRotated: ({ data }) => [webhookValue(data.endpointId, data.secretId, data.secretCommitment)],
  // `checkWhitelist` compares the rows with the accounts' streams. Here they are only counted.
  NetworkAllowed: ({ data }) => [value(allowedEntry, data.commitment, data.commitment)],
  NetworksAdopted: ({ data }) =>
    data.entries.map(({ commitment }) => value(allowedEntry, commitment, commitment)),
  NetworkRemoved: ({ data }) => [value(removedEntry, data.commitment, data.commitment)],
  CommitmentsAdopted: () => [],
  WhitelistsAdopted: () => [],
}

const adoptingTypes: ReadonlySet<string> = new Set<AdoptingType>([
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
/** Events of releases that adopt first end the adoption: always, or when they have a commitment. */
const endingTypes: ReadonlySet<string> = new Set([
  'CommitmentsAdopted',
  'WhitelistsAdopted',
  'NetworkAllowed',
])
/** GatewaySet and similar events are missing here, because they already had commitments long before. */
const endingIfCommitted: ReadonlySet<string> = new Set([
  'AccountCreated',
  'StaffRoleGranted',
  'PasskeyAdded',
  'FinanceTokenIssued',
])
const adoptionOf = ({ type }: { readonly type: string }): string =>
  whitelistTypes.has(type) ? 'whitelists' : 'over'

const checkAdoption = (
  event: Recorded<CommitmentType>,
  named: readonly NamedValue[],
  { rows, report }: Context,
): void => {
  const { type, position } = event
  const isEnd =
    endingTypes.has(type) || (endingIfCommitted.has(type) && named.some(({ digest }) => digest !== null))
  if (!adoptingTypes.has(type) && !isEnd) return
  const id = adoptionOf(event)
  const endRow = rows.get(adoptionTable, [id])
  if (adoptingTypes.has(type)) {
    const { actor } = event.metadata
    if (endRow !== undefined)
      report(
        'adopted-late',
        `an upgrade adopts before anything else, and was over at position ${endRow.position}`,
      )
    if (actor.kind !== 'system' || actor.name !== 'upgrade')
      report('adopted-by', 'only an upgrade adopts what older releases left')
  }
  if (endRow === undefined && isEnd) rows.put(adoptionTable, { id, position })
}

const checkCommitments =
  <Type extends CommitmentType>(valuesOf: (event: Recorded<Type>) => readonly NamedValue[]) =>
  (event: Recorded<Type>, context: Context): void => {
    const named = valuesOf(event)
    checkAdoption(event as Recorded<CommitmentType>, named, context)
    const { position, type } = event as Recorded<CommitmentType>
    const common = { position, owner: subjectOf(event), detail: null, adopted: adoptingTypes.has(type) }
    for (const one of named) context.rows.add(commitmentsTable, { ...common, ...one })
  }

/**
 * Collects the commitments of events to rows of the vault, one per event, so that no event removes another's. Data of
 * older releases is adopted once, before an event of a newer release has a commitment.
 */
export const commitmentRules = eventRules<CommitmentType>({
  name: 'audit-commitments',
  version: 6,
  tables: [commitmentsTable, adoptionTable],
  reads: (event) => [rowKey(adoptionTable, adoptionOf(event))],
  on: Object.fromEntries(
    Object.entries(valuesNamedBy).map(([type, valuesOf]) => [type, checkCommitments(valuesOf as never)]),
  ) as never,
})

/** A delivery that has not ended. */
export const deliveriesTable = readTable({
  name: 'audit_deliveries',
  columns: { stream: column.text(), deliveryId: column.text(), lastPosition: column.bigint() },
  key: ['stream'],
})
type DeliveryRow = RowOf<typeof deliveriesTable>

const startDelivery = (
  { stream, data, position }: Recorded<'WebhookEnqueued' | 'WebhookRequeued'>,
  row: DeliveryRow | undefined,
  { report }: Context,
): DeliveryRow => {
  if (row !== undefined) report('delivery', 'it is under way already')
  return { stream, deliveryId: data.deliveryId, lastPosition: position }
}
const endDelivery = (
  { data }: Recorded<'DeliverySucceeded' | 'DeliveryAbandoned' | 'DeliveryCanceled'>,
  row: DeliveryRow | undefined,
  { report }: Context,
): null => {
  if (row === undefined) report('delivery', 'nothing is under way here that could end so')
  else if (row.deliveryId !== data.deliveryId)
    report('delivery', `it is ${row.deliveryId} that is under way here`)
  return null
}

/** A requested delivery ends once. Its end names the requested delivery, and a further end needs another request. */
export const deliveryRules = invariant({
  name: 'audit-deliveries',
  version: 2,
  table: deliveriesTable,
  kind: 'delivery-',
  key: ({ stream }) => stream,
  on: {
    WebhookEnqueued: startDelivery,
    WebhookRequeued: startDelivery,
    DeliverySucceeded: endDelivery,
    DeliveryAbandoned: endDelivery,
    DeliveryCanceled: endDelivery,
  },
})
