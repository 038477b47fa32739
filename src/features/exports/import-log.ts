import type { FileHandle } from 'node:fs/promises'
import { type Clock, maxAheadMs } from '../../kernel/clock.ts'
import type { StreamName } from '../../kernel/streams.ts'
import { appendBytes, expectedFrom } from '../../platform/eventstore/append-checks.ts'
import { readLog } from '../../platform/eventstore/codec.ts'
import { decisionMs } from '../../platform/eventstore/event-times.ts'
import {
  type Append,
  type AppendItem,
  type EventLog,
  maxAppendBytes,
  type NewEvent,
  type StoredEvent,
} from '../../platform/eventstore/port.ts'
import { type JsonlBatch, NoExport, readJsonl } from './jsonl.ts'

/** The log is not one that this file can be imported into; nothing was written. */
export class LogNotEmpty extends Error {
  override readonly name = 'LogNotEmpty'
}

/** It broke off: what stands in the log is the file's beginning, and the same import goes on from there. */
export class ImportBrokeOff extends Error {
  override readonly name = 'ImportBrokeOff'
}

export type Imported = {
  readonly events: number
  /** What stood in the log already, from an import that broke off. */
  readonly found: number
  readonly position: number
}

export type ImportProgress = (step: {
  readonly phase: 'check' | 'import'
  /** Of the file. */
  readonly bytes: number
  readonly events: number
}) => void

/** One pass that only reads: every line, and that each stream goes on where it ended. */
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

/** Consecutive events of one stream are one append, as large as an append may be. */
const itemOf = (events: JsonlBatch['events']): AppendItem => {
  const appends: (Append & { readonly events: NewEvent[] })[] = []
  let bytes = 0
  for (const { stream, revision, id, type, data, metadata } of events) {
    const own = { stream: stream as StreamName, expected: expectedFrom(revision - 1) }
    const append = { ...own, events: [{ id, type, data, metadata }] }
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

type Given = JsonlBatch['events'][number]

const isSame = (stored: StoredEvent, given: Given): boolean =>
  stored.stream === given.stream &&
  stored.revision === given.revision &&
  stored.id === given.id &&
  stored.type === given.type &&
  stored.data === given.data &&
  stored.metadata === given.metadata

/**
 * Holds events of the file against what the log has already, in order.
 * @throws LogNotEmpty at the first that differs
 */
const createComparison = async (log: EventLog) => {
  const standing = readLog(log, await log.head())
  let page: readonly StoredEvent[] = []
  let at = 0
  const next = async (): Promise<StoredEvent | null> => {
    if (at === page.length) {
      const read = await standing.next()
      page = read.done ? [] : read.value
      at = 0
    }
    return page[at] ?? null
  }
  let found = 0
  return {
    /** The events that the log does not have yet. */
    async missing(events: readonly Given[]): Promise<readonly Given[]> {
      for (const [index, given] of events.entries()) {
        const stored = await next()
        if (stored === null) return events.slice(index)
        if (!isSame(stored, given))
          throw new LogNotEmpty(
            `the log is not empty, and its event ${given.ordinal} is not the file's: import into an empty log`,
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

const elsewhere =
  'somebody else writes to this log, so the import ended. Start over with an empty log that no server uses'

/** Appends behind what it wrote before, and looks that nobody else writes meanwhile. */
const createWriter = async (log: EventLog) => {
  let head = await log.head()
  const assertAlone = async (): Promise<void> => {
    if ((await log.head()) !== head) throw new ImportBrokeOff(elsewhere)
  }
  const write = async (events: readonly Given[]): Promise<void> => {
    await assertAlone()
    const item = itemOf(events)
    // The same bytes at the same expectations give their first result, so what is not known is simply sent again.
    for (let attempt = 1; ; attempt += 1) {
      const [outcome] = await log.appendAll([item])
      if (outcome === undefined || outcome.status === 'conflict') throw new ImportBrokeOff(elsewhere)
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
  return { write, assertAlone }
}

/**
 * Makes the log of a `jsonl` export in an empty log: the same events with the same bytes, in the same order. The file is
 * read twice. The first pass reads every byte and writes nothing; the second one writes only batches whose digest is
 * that of the first pass. A log that holds the file's beginning (from an import that broke off) is completed.
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
  let done = 0
  let written = false
  let at = 0
  for await (const batch of readJsonl(file)) {
    if (batch.sha256 !== digests[at]) {
      const why = 'the file was changed while it was read'
      throw written ? new ImportBrokeOff(`${why}: start over with an empty log`) : new NoExport(why)
    }
    at += 1
    const missing = written ? batch.events : await comparison.missing(batch.events)
    if (missing.length > 0) {
      await writer.write(missing)
      written = true
    }
    done += batch.events.length
    onProgress?.({ phase: 'import', bytes: batch.bytes, events: done })
  }
  if (!written) await comparison.assertNothingMore()
  await writer.assertAlone()
  return { events, found: comparison.found(), position: await log.head() }
}
