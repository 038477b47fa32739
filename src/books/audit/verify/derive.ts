import type { PoisonEvent } from '../../../../projections/engine/fold-batch.ts'
import { createFolding } from '../../../../projections/engine/folding.ts'
import type { ReadModel } from '../../../../projections/engine/read-model.ts'
import { createTableSql } from '../../../../projections/engine/table-sql.ts'
import type { RecordedEvent } from '../../../platform/eventstore/event.ts'
import type { Session } from '../../../platform/postgres/session.ts'

/** Models folded into a scratch schema. */
export type Derivation = {
  /** Folds the next events. */
  take(events: readonly RecordedEvent[]): Promise<void>
  /** Resolves when all rows are written. */
  written(): Promise<void>
}

/** Rows that a model keeps in memory: few enough that a log of any length needs the same. */
const maxRows = 20_000

/** @param onPoison is told of each event that a model cannot take: it passes that model by, and the rest goes on */
export const createDerivation = async (
  session: Session,
  schema: string,
  models: readonly ReadModel[],
  onPoison: (poison: PoisonEvent) => void,
): Promise<Derivation> => {
  for (const table of models.flatMap(({ tables }) => tables))
    await session.client.query(createTableSql(schema, table, 'unlogged'))
  return createFolding({ session, schema, models, maxRows, onPoison })
}
