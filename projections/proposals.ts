import type { ProposalEvent, ProposedAction } from '../src/domain/ledger/approvals.ts'
import { proposedSizeMicros } from '../src/domain/ledger/decide-approval.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import { column, nullable, type RowOf, readModel, readTable } from '../src/platform/projections/read-model.ts'

/** A proposal of an operator that a second operator must approve. An expired one stays `open`: compare `expires_at`. */
export const proposalsTable = readTable({
  name: 'proposals',
  columns: {
    proposalId: column.text(),
    what: column.jsonb<ProposedAction>(),
    /** The account whose money moves; null for a setting or a statement. */
    accountId: nullable(column.text()),
    /** The larger side of the movement; null for a setting. */
    sizeMicros: nullable(column.bigint()),
    status: column.text<'open' | 'approved' | 'declined' | 'withdrawn'>(),
    proposedBy: column.text(),
    proposedAt: column.timestamptz(),
    expiresAt: column.timestamptz(),
    /** The operator who approved, declined or withdrew it, and the time; null while it is open. */
    closedBy: nullable(column.text()),
    closedAt: nullable(column.timestamptz()),
    note: nullable(column.text()),
  },
  key: ['proposalId'],
  indexes: ['status, proposed_at desc, proposal_id desc', 'proposed_at desc, proposal_id desc'],
})

export type ProposalRow = RowOf<typeof proposalsTable>

/** The row of a proposal after an event of its stream. `row` is null before the first event. */
export const proposalAfter = (row: ProposalRow | null, event: RecordedEvent<ProposalEvent>): ProposalRow => {
  const { recordedAt } = event.metadata
  if (event.type === 'ProposalMade') {
    const { proposalId, what, by, expiresAt } = event.data
    return {
      proposalId,
      what,
      accountId: 'accountId' in what ? what.accountId : null,
      sizeMicros: proposedSizeMicros(what),
      status: 'open',
      proposedBy: by,
      proposedAt: recordedAt,
      expiresAt,
      closedBy: null,
      closedAt: null,
      note: null,
    }
  }
  if (!row) throw new Error(`proposal ${event.data.proposalId} is closed and was never made`)
  const closed = event.type === 'ProposalClosed' ? event.data : null
  return {
    ...row,
    status: closed === null ? 'approved' : closed.reason,
    closedBy: event.data.by,
    closedAt: recordedAt,
    note: closed?.note ?? null,
  }
}

/** Open and closed proposals, for `proposals list` and the console. */
export const proposals = readModel({
  name: 'proposals',
  version: 1,
  tables: [proposalsTable],
  reads: (event) =>
    event.type === 'ProposalApproved' || event.type === 'ProposalClosed'
      ? [{ table: proposalsTable.name, key: [(event as RecordedEvent<ProposalEvent>).data.proposalId] }]
      : [],
  apply: (recorded, rows) => {
    const event = recorded as RecordedEvent<ProposalEvent>
    switch (event.type) {
      case 'ProposalMade':
        return rows.put(proposalsTable, proposalAfter(null, event))
      case 'ProposalApproved':
      case 'ProposalClosed': {
        const row = rows.get(proposalsTable, [event.data.proposalId])
        return rows.put(proposalsTable, proposalAfter(row ?? null, event))
      }
    }
  },
})
