import { PoisonEvent } from '../../../../projections/engine/fold-batch.ts'
import { createFolding, type Folding } from '../../../../projections/engine/folding.ts'
import type { ReadModel } from '../../../../projections/engine/read-model.ts'
import { createTableSql } from '../../../../projections/engine/table-sql.ts'
import type { RecordedEvent } from '../../../platform/eventstore/event.ts'
import type { Session } from '../../../platform/postgres/session.ts'
import type { UnreadableEvent } from './read-events.ts'

/** Models folded into a scratch schema, up to the first event that they cannot take. */
export type Derivation = {
  /** Folds the next events. After one that it cannot take it does nothing more. */
  take(events: readonly RecordedEvent[]): Promise<void>
  /** Resolves when all rows are written. */
  written(): Promise<void>
  /** What stopped it; null while nothing did. */
  stopped(): PoisonEvent | UnreadableEvent | null
  stop(error: UnreadableEvent): void
}

/** Rows that a model keeps in memory: few enough that a log of any length needs the same. */
const maxRows = 20_000

export const createDerivation = async (
  session: Session,
  schema: string,
  models: readonly ReadModel[],
): Promise<Derivation> => {
  for (const table of models.flatMap(({ tables }) => tables))
    await session.client.query(createTableSql(schema, table, 'unlogged'))
  const folding: Folding = createFolding({ session, schema, models, maxRows })
  let stopped: PoisonEvent | UnreadableEvent | null = null
  return {
    async take(events) {
      if (stopped !== null || events.length === 0) return
      try {
        await folding.take(events)
      } catch (error) {
        if (!(error instanceof PoisonEvent)) throw error
        stopped = error
        // What stands before it is still to be looked at.
        const before = events.filter(({ position }) => position < error.event.position)
        if (before.length > 0) await folding.take(before)
      }
    },
    written: folding.written,
    stopped: () => stopped,
    stop: (error) => {
      stopped ??= error
    },
  }
}
