import type { Kysely } from 'kysely'
import type { ProposalEvent, ProposedAction } from '../src/domain/ledger/approvals.ts'
import { proposedSizeMicros } from '../src/domain/ledger/decide-approval.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import type { ReadModel, Table } from '../src/platform/projections/read-model.ts'

/** A proposal of an operator that a second operator must approve. An expired one stays `open`: compare `expires_at`. */
export type ProposalRow = {
  readonly proposal_id: string
  readonly what: ProposedAction
  /** The account whose money moves; null for a setting. */
  readonly account_id: string | null
  /** The larger side of the movement; null for a setting. */
  readonly size_micros: number | null
  readonly status: 'open' | 'approved' | 'declined' | 'withdrawn'
  readonly proposed_by: string
  readonly proposed_at: string
  readonly expires_at: string
  /** The operator who approved, declined or withdrew it, and the time; null while it is open. */
  readonly closed_by: string | null
  readonly closed_at: string | null
  readonly note: string | null
}

export type ProposalQueries = Kysely<{ 'read.proposals': ProposalRow }>

export const proposalsTable: Table<ProposalRow> = {
  name: 'proposals',
  columns: {
    proposal_id: { type: 'text' },
    what: { type: 'jsonb' },
    account_id: { type: 'text', nullable: true },
    size_micros: { type: 'bigint', nullable: true },
    status: { type: 'text' },
    proposed_by: { type: 'text' },
    proposed_at: { type: 'timestamptz' },
    expires_at: { type: 'timestamptz' },
    closed_by: { type: 'text', nullable: true },
    closed_at: { type: 'timestamptz', nullable: true },
    note: { type: 'text', nullable: true },
  },
  key: ['proposal_id'],
  indexes: ['status, proposed_at desc, proposal_id desc', 'proposed_at desc, proposal_id desc'],
}

/** The row of a proposal after an event of its stream. `row` is null before the first event. */
export const proposalAfter = (row: ProposalRow | null, event: RecordedEvent<ProposalEvent>): ProposalRow => {
  const { recordedAt } = event.metadata
  if (event.type === 'ProposalMade') {
    const { proposalId, what, by, expiresAt } = event.data
    return {
      proposal_id: proposalId,
      what,
      account_id: what.kind === 'setting' ? null : what.accountId,
      size_micros: proposedSizeMicros(what),
      status: 'open',
      proposed_by: by,
      proposed_at: recordedAt,
      expires_at: expiresAt,
      closed_by: null,
      closed_at: null,
      note: null,
    }
  }
  if (!row) throw new Error(`proposal ${event.data.proposalId} is closed and was never made`)
  const closed = event.type === 'ProposalClosed' ? event.data : null
  return {
    ...row,
    status: closed === null ? 'approved' : closed.reason,
    closed_by: event.data.by,
    closed_at: recordedAt,
    note: closed?.note ?? null,
  }
}

/** Open and closed proposals, for `proposals list` and the console. */
export const proposals: ReadModel = {
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
}
