import type { RecordedEvent } from '../../kernel/event.ts'
import type { Session } from '../postgres/postgres-session.ts'
import { foldBatch, type PoisonEvent, type TableChange } from './fold-batch.ts'
import type { ReadModel } from './read-model.ts'
import { createRowCache } from './row-cache.ts'
import { createBatchWriter } from './write-batch.ts'

/** Folds events into the tables of a schema that were empty before the first of them. */
export type Folding = {
  /**
   * Folds the next events in log order. Their rows are on the way when it resolves: the next call folds while they are
   * written.
   * @returns what the events change
   * @throws PoisonEvent: the models did not take an event of this batch, and nothing of it is written; not with `onPoison`
   */
  take(events: readonly RecordedEvent[]): Promise<readonly TableChange[]>
  /** Resolves when all rows are written. */
  written(): Promise<void>
}

export type FoldingOptions = {
  readonly session: Session
  readonly schema: string
  readonly models: readonly ReadModel[]
  /** Rows held in memory; default 100,000. While all fit, none is ever selected. */
  readonly maxRows?: number
  /** Is told of events that a model cannot take, which then pass it by. */
  readonly onPoison?: (poison: PoisonEvent) => void
}

export const createFolding = (options: FoldingOptions): Folding => {
  const { session, schema, models, maxRows = 100_000, onPoison } = options
  const writer = createBatchWriter(session.client, schema)
  const cache = createRowCache({ maxRows, complete: true })
  let written: Promise<unknown> = Promise.resolve()
  return {
    async take(events) {
      // Loads wait behind the write that is under way, for both go through one session.
      const changes = await foldBatch({
        models,
        events,
        cache,
        load: writer.load,
        alone: true,
        ...(onPoison && { onPoison }),
      })
      await written
      written = writer.write(changes.tables, null)
      written.catch(() => undefined) // the next to wait for it is told
      changes.commit()
      return changes.tables
    },
    async written() {
      await written
    },
  }
}
