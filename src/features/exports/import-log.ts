import type { FileHandle } from 'node:fs/promises'
import { type Clock, maxAheadMs } from '../../kernel/clock.ts'
import type { StreamName } from '../../kernel/streams.ts'
import { appendBytes, expectedFrom } from '../../platform/eventstore/append-guards.ts'
import { decisionMs, readLog } from '../../platform/eventstore/codec.ts'
import {
  type Append,
  type AppendItem,
  type EventLog,
  maxAppendBytes,
  type NewEvent,
  type StoredEvent,
} from '../../platform/eventstore/port.ts'
import { type JsonlBatch, NoExport, readJsonl } from './jsonl.ts'

/** The log does not allow an import of this file. Nothing was written. */
export class LogNotEmpty extends Error {
  override readonly name = 'LogNotEmpty'
}

/** The import stopped early: the log has the beginning of the file, and the same import continues from there. */
export class ImportBrokeOff extends Error {
  override readonly name = 'ImportBrokeOff'
}

export type Imported = {
  readonly events: number
  /** Events that the log already had from an earlier partial import. */
  readonly found: number
  readonly position: number
}

export type ImportProgress = (step: {
  readonly phase: 'check' | 'import'
  /** Bytes of the file. */
  readonly bytes: number
  readonly events: number
}) => void

/** A read-only pass: checks every line, and that the revisions of each stream have no gap. */
const checkFile = async (file: FileHandle, clock: Clock, onProgress?: ImportProgress) => {
  const ends = new Map<string, number>()
  const digests: string[] = []
  let events = 0
  for await (const batch of readJsonl(file)) {
    for (const event of batch.events) {
      const next = (ends.get(event.stream) ?? -1) + 1
      if (event.revision !== next)
        throw new NoExport(
          `event ${event.ordinal} is revision ${event.revision} of ${event.stream}, which goes on at ${next}`,
        )
      if (decisionMs(event.metadata) > clock() + maxAheadMs)
        throw new NoExport(`event ${event.ordinal} is of the future, which no log takes`)
      ends.set(event.stream, next)
    }
    digests.push(batch.sha256)
    events += batch.events.length
    onProgress?.({ phase: 'check', bytes: batch.bytes, events })
  }
  return { events, digests }
}

/** Consecutive events of a stream form one append, up to the maximum size of an append. */
const itemOf = (events: JsonlBatch['events']): AppendItem => {
  const appends: (Append & { readonly events: NewEvent[] })[] = []
  let bytes = 0
  for (const { stream, revision, id, type, data, metadata } of events) {
    const appendTarget = { stream: stream as StreamName, expected: expectedFrom(revision - 1) }
    const append = { ...appendTarget, events: [{ id, type, data, metadata }] }
    const more = appendBytes(append)
    const last = appends.at(-1)
    if (last?.stream === stream && bytes + more <= maxAppendBytes) {
      last.events.push(...append.events)
      bytes += more
    } else {
      appends.push(append)
      bytes = more
    }
  }
  return { appends }
}

type FileEvent = JsonlBatch['events'][number]

const isSame = (stored: StoredEvent, fileEvent: FileEvent): boolean =>
  stored.stream === fileEvent.stream &&
  stored.revision === fileEvent.revision &&
  stored.id === fileEvent.id &&
  stored.type === fileEvent.type &&
  stored.data === fileEvent.data &&
  stored.metadata === fileEvent.metadata

/**
 * Compares events of the file with those of the log, in order.
 * @throws LogNotEmpty at the first difference
 */
const createComparison = async (log: EventLog) => {
  const storedPages = readLog(log, await log.head())
  let page: readonly StoredEvent[] = []
  let at = 0
  const next = async (): Promise<StoredEvent | null> => {
    if (at === page.length) {
      const read = await storedPages.next()
      page = read.done ? [] : read.value
      at = 0
    }
    return page[at] ?? null
  }
  let found = 0
  return {
    /** The events that the log does not have yet. */
    async missing(events: readonly FileEvent[]): Promise<readonly FileEvent[]> {
      for (const [index, fileEvent] of events.entries()) {
        const stored = await next()
        if (stored === null) return events.slice(index)
        if (!isSame(stored, fileEvent))
          throw new LogNotEmpty(
            `the log is not empty, and its event ${fileEvent.ordinal} is not the file's: import into an empty log`,
          )
        at += 1
        found += 1
      }
      return []
    },
    async assertNothingMore(): Promise<void> {
      if ((await next()) !== null)
        throw new LogNotEmpty('the log has more events than the file: import into an empty log')
    },
    found: () => found,
  }
}

const changedElsewhere =
  'another process writes to this log, so the import ended. Start over with an empty log that no server uses'

/** Appends after its own last event, and checks that no other process appends to the log. */
const createWriter = async (log: EventLog) => {
  let head = await log.head()
  const assertNoOtherWriter = async (): Promise<void> => {
    if ((await log.head()) !== head) throw new ImportBrokeOff(changedElsewhere)
  }
  const write = async (events: readonly FileEvent[]): Promise<void> => {
    await assertNoOtherWriter()
    const item = itemOf(events)
    // Appends are idempotent: the same bytes with the same expected revisions give the first result. So a batch with an
    // unknown outcome is sent again.
    for (let attempt = 1; ; attempt += 1) {
      const [outcome] = await log.appendAll([item])
      if (outcome === undefined || outcome.status === 'conflict') throw new ImportBrokeOff(changedElsewhere)
      if (outcome.status === 'landed') {
        head = outcome.appended.at(-1)?.position ?? head
        return
      }
      if (outcome.status === 'rejected' || attempt === 5)
        throw new ImportBrokeOff(
          `the log did not take event ${events[0]?.ordinal} and what follows it (${outcome.cause.message}). Run the same import again: it goes on from there`,
          { cause: outcome.cause },
        )
    }
  }
  return { write, assertAlone: assertNoOtherWriter }
}

/**
 * Restores the log of a `jsonl` export in an empty log: the same events with the same bytes in the same order. The file
 * is read twice. The first pass reads every byte and writes nothing. The second pass writes only batches whose digest
 * equals that of the first pass. A log with the beginning of the file (from an earlier partial import) is completed.
 * @throws NoExport, LogNotEmpty: nothing was written; ImportBrokeOff; LogUnavailable
 */
export const importLog = async (
  log: EventLog,
  file: FileHandle,
  clock: Clock,
  onProgress?: ImportProgress,
): Promise<Imported> => {
  const { events, digests } = await checkFile(file, clock, onProgress)
  const comparison = await createComparison(log)
  const writer = await createWriter(log)
  let importedCount = 0
  let written = false
  let at = 0
  for await (const batch of readJsonl(file)) {
    if (batch.sha256 !== digests[at]) {
      const reason = 'the file was changed while it was read'
      throw written ? new ImportBrokeOff(`${reason}: start over with an empty log`) : new NoExport(reason)
    }
    at += 1
    const missing = written ? batch.events : await comparison.missing(batch.events)
    if (missing.length > 0) {
      await writer.write(missing)
      written = true
    }
    importedCount += batch.events.length
    onProgress?.({ phase: 'import', bytes: batch.bytes, events: importedCount })
  }
  if (!written) await comparison.assertNothingMore()
  await writer.assertAlone()
  return { events, found: comparison.found(), position: await log.head() }
}
