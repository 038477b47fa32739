import type { ExitEvent, ExitState, ExitTerms } from '../src/domain/exits/events.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import { column, type RowOf, readModel, readTable } from '../src/platform/projections/read-model.ts'

/**
 * One exit. Removed exits remain, so that the id of a removed exit is not mistaken for a misspelt id. Its login is in
 * the vault.
 */
const exitsTable = readTable({
  name: 'exits',
  columns: {
    exitId: column.text(),
    state: column.text<ExitState>(),
    terms: column.jsonb<ExitTerms>(),
    /** The revision of the last event that changed it. A process with cached exits reads rows with a later revision. */
    revision: column.bigint(),
  },
  key: ['exitId'],
  indexes: ['revision'],
})

export type ExitRow = RowOf<typeof exitsTable>

const isExitEvent = (event: RecordedEvent): event is RecordedEvent<ExitEvent> =>
  event.type === 'ExitsImported' || event.type === 'ExitsStateChanged'

const idsOf = (event: ExitEvent): readonly string[] =>
  event.type === 'ExitsImported' ? event.data.exits.map(({ exitId }) => exitId) : event.data.exitIds

/** The exits of the gateway, each after its last event. */
export const exits = readModel({
  name: 'exits',
  version: 1,
  tables: [exitsTable],
  reads: (event) =>
    isExitEvent(event) ? idsOf(event).map((exitId) => ({ table: exitsTable.name, key: [exitId] })) : [],
  apply: (event, rows) => {
    if (!isExitEvent(event)) return
    const { revision } = event
    if (event.type === 'ExitsImported') {
      for (const terms of event.data.exits) {
        const before = rows.get(exitsTable, [terms.exitId])?.state ?? 'live'
        const state = before === 'removed' ? 'live' : before
        rows.put(exitsTable, { exitId: terms.exitId, state, terms, revision })
      }
      return
    }
    for (const exitId of event.data.exitIds) {
      const row = rows.get(exitsTable, [exitId])
      if (!row) throw new Error(`exit ${exitId} changed its state before it was imported`)
      rows.put(exitsTable, { ...row, state: event.data.state, revision })
    }
  },
})
