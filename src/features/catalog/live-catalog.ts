import type { Logger } from 'pino'
import { type Catalog, createCatalog } from '../../domain/catalog/catalog.ts'
import type { CatalogEvent } from '../../domain/catalog/events.ts'
import { type CatalogState, emptyCatalog, evolveCatalog } from '../../domain/catalog/fold.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import { catalogStream } from '../../kernel/streams.ts'
import { decode } from '../../platform/eventstore/codec.ts'
import type { EventLog, StoredEvent } from '../../platform/eventstore/port.ts'
import { createLiveRows, type LiveRows } from '../../platform/projections/live.ts'
import type { Watch } from '../../platform/projections/progress.ts'

/** The catalogue in memory, so that requests need no query. */
export type LiveCatalog = LiveRows<Catalog>

/**
 * Caches the catalogue from the events of its stream, because prices depend on it: anyone with write access to the
 * database can change `read.catalog`, which only signals that there are new events.
 */
export const createLiveCatalog = (deps: {
  readonly log: Pick<EventLog, 'lastOf' | 'readStreams'>
  /** Of the table `catalog`. */
  readonly watch: Watch
  readonly logger: Logger
}): LiveCatalog => {
  const { log, watch, logger } = deps
  let cachedState: { readonly state: CatalogState; readonly revision: number } = {
    state: emptyCatalog,
    revision: -1,
  }

  const read = async (from: number, events: number): Promise<readonly StoredEvent[]> =>
    (await log.readStreams([{ stream: catalogStream, from }], events)).get(catalogStream) ?? []

  /**
   * The events after the cached revision, or from the last import on. An import replaces the whole catalogue and may be
   * as large as an event can be. The stream is therefore read backwards from its end.
   */
  const newEvents = async (lastRevision: number): Promise<readonly StoredEvent[]> => {
    let events: readonly StoredEvent[] = []
    for (let [through, size] = [lastRevision, 1]; through > cachedState.revision; size *= 2) {
      const from = Math.max(cachedState.revision + 1, through - size + 1)
      events = [...(await read(from, through - from + 1)), ...events]
      const imported = events.findLastIndex(({ type }) => type === 'CatalogImported')
      if (imported !== -1) return events.slice(imported)
      through = from - 1
    }
    return events
  }

  const load = async (former: Catalog | null): Promise<Catalog> => {
    const last = await log.lastOf(catalogStream)
    if (last === null || last.revision <= cachedState.revision)
      return former ?? createCatalog(cachedState.state)
    const state = (await newEvents(last.revision)).reduce(
      (before, stored) => evolveCatalog(before, decode(stored) as RecordedEvent<CatalogEvent>),
      cachedState.state,
    )
    const catalog = createCatalog(state)
    cachedState = { state, revision: last.revision }
    return catalog
  }

  return createLiveRows({ name: 'catalogue', watch, load, logger })
}
