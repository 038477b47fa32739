import type { RecordedEvent } from '../../kernel/event.ts'
import type { Session } from '../postgres/postgres-session.ts'
import { foldBatch, type PoisonEvent, type TableChange } from './fold-batch.ts'
import type { ReadModel } from './read-model.ts'
import { createRowCache } from './row-cache.ts'
import { createBatchWriter } from './write-batch.ts'

/** Folds events into the tables of a schema that were empty before the first event. */
export type Folding = {
  /**
   * Folds the next events in log order. It resolves while their rows are being written: the next call folds during
   * the write.
   * @returns the changes of the events
   * @throws PoisonEvent if a model cannot apply an event; nothing of this batch is written. Not with `onPoison`.
   */
  take(events: readonly RecordedEvent[]): Promise<readonly TableChange[]>
  /** Resolves when all rows are written. */
  written(): Promise<void>
}

export type FoldingOptions = {
  readonly session: Session
  readonly schema: string
  readonly models: readonly ReadModel[]
  /** Rows in memory; default 100,000. While all rows fit, none is selected. */
  readonly maxRows?: number
  /** Called with events that a model cannot apply. The model then skips them. */
  readonly onPoison?: (poison: PoisonEvent) => void
}

export const createFolding = (options: FoldingOptions): Folding => {
  const { session, schema, models, maxRows = 100_000, onPoison } = options
  const writer = createBatchWriter(session.client, schema)
  const cache = createRowCache({ maxRows, complete: true })
  let written: Promise<unknown> = Promise.resolve()
  return {
    async take(events) {
      // Loads wait for the write in progress, because both use the same session.
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
      written.catch(() => undefined) // the next caller that awaits the write gets the error
      changes.commit()
      return changes.tables
    },
    async written() {
      await written
    },
  }
}
