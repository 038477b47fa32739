import { concernsDates, createEntryStream } from '../../domain/finance/entries.ts'
import type { Calendar } from '../../kernel/calendar.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import { type EventCodec, readLog } from '../../platform/eventstore/codec.ts'
import type { EventLog, StoredEvent } from '../../platform/eventstore/port.ts'
import type { Sink } from '../../platform/outgoing/file-sink.ts'
import {
  createGatewayNames,
  lastInstantOf,
  type Moment,
  momentOf,
  refuseMomentPastHead,
  type TypedMoment,
} from '../finance/index.ts'
import type { AccountMapping } from './account-mapping.ts'
import { dailyWriter } from './daily-journals.ts'
import {
  beancountWriter,
  csvWriter,
  type DailyFormat,
  type ExportHead,
  type Format,
  hledgerWriter,
  type JournalFormat,
  type JournalWriter,
} from './journal-formats.ts'
import { createJsonlWriter } from './jsonl.ts'

export type JournalExport = {
  readonly format: Format
  /** The book that is exported. Null: all books are exported. The format `jsonl` ignores it. */
  readonly book: string | null
  /**
   * Includes the last event at or before it, and the lines of statements that are dated at or before it; null: up to the
   * current head of the log.
   */
  readonly until: TypedMoment | null
}

/** Journals of days for another accounting system. */
export type DailyExport = {
  readonly format: DailyFormat
  readonly book: string
  readonly mapping: AccountMapping
  /** The first day, such as `2026-11-01`. */
  readonly from: string
  /** The day after the last one. */
  readonly to: string
}

export type ExportOptions = (JournalExport | DailyExport) & {
  readonly onProgress?: (position: number, events: number) => void
}

export type Exported = {
  readonly format: Format | DailyFormat
  /** Position of the last exported event; 0 without one. */
  readonly position: number
  readonly events: number
  readonly bytes: number
  /**
   * Entries from this time on can still be added, because their month is not cut off: lines of statements that are posted
   * later. ISO 8601 UTC; null: the export is final.
   */
  readonly openFrom: string | null
}

const writers: Readonly<Record<JournalFormat, (head: ExportHead) => JournalWriter>> = {
  hledger: hledgerWriter,
  beancount: beancountWriter,
  csv: csvWriter,
}

/** Converts pages of the log to one format. */
type PageWriter = {
  head(): string
  events(page: readonly StoredEvent[]): string
  /**
   * Lines of statements that are dated at or before `limit`, from events after that time. Null: no later event has one.
   */
  datedBack(page: readonly StoredEvent[], limit: string): string | null
  /** The earliest time of entries of later events; null: entries are not dated. */
  openFrom(): string | null
  end(): string
}

const recordedAtOf = ({ metadata }: StoredEvent): string =>
  (JSON.parse(metadata) as { recordedAt: string }).recordedAt

const journalPages = (
  { writer, see }: { readonly writer: JournalWriter; see(event: RecordedEvent): void },
  decode: EventCodec['decode'],
): PageWriter => {
  const entries = createEntryStream()
  return {
    head: writer.head,
    events: (page) => {
      let text = ''
      for (const stored of page) {
        const event = decode(stored)
        see(event)
        const entry = entries.next(event)
        if (entry !== null) text += writer.entry(entry)
      }
      return text
    },
    datedBack: (page, limit) => {
      if (entries.time !== null && entries.time.openFrom > limit) return null
      let text = ''
      for (const stored of page) {
        if (!concernsDates(stored.stream)) {
          entries.pass(recordedAtOf(stored))
          continue
        }
        const entry = entries.next(decode(stored))
        if (entry !== null && entry.at <= limit) text += writer.entry(entry)
      }
      return text
    },
    openFrom: () => entries.time?.openFrom ?? null,
    end: writer.end,
  }
}

const pageWriterOf = (
  options: JournalExport | DailyExport,
  logId: string,
  { decode, calendar }: { readonly decode: EventCodec['decode']; readonly calendar: Calendar },
): PageWriter => {
  if (options.format === 'jsonl')
    return { ...createJsonlWriter(), datedBack: () => null, openFrom: () => null }
  const { see, nameOf: gatewayOf } = createGatewayNames()
  const writer =
    'mapping' in options
      ? dailyWriter({ ...options, calendar })
      : writers[options.format]({ logId, book: options.book, gatewayOf, calendar })
  return journalPages({ writer, see }, decode)
}

const endOf = (options: JournalExport | DailyExport, calendar: Calendar): Moment | null => {
  if ('mapping' in options) return { kind: 'time', atMs: calendar.startOfDayMs(options.to) - 1 }
  return options.until && momentOf(options.until, calendar)
}

/** Cuts a page at the first event after an instant. `rest` are the events from there on. */
const cutAtTime = (limit: string | null) => {
  let isPast = false
  return (page: readonly StoredEvent[]) => {
    // Accounting time is a running maximum. So it exceeds the instant at the first event that is later.
    const first = isPast ? 0 : limit === null ? -1 : page.findIndex((stored) => recordedAtOf(stored) > limit)
    isPast = first !== -1
    return isPast ? { page: page.slice(0, first), rest: page.slice(first) } : { page, rest: [] }
  }
}

/**
 * Writes the ledger up to the current head of the log, or less. Memory does not grow with the log: two pages, and for
 * hledger and beancount a balance for each account. Daily journals are written at the end.
 * @throws MomentPastHead, UnmappedAccounts and TooManyJournalLines before anything is written; LogUnavailable, and errors
 *   of the sink
 */
export const exportLedger = async (
  {
    log,
    decode,
    clock,
    calendar,
  }: {
    readonly log: EventLog
    readonly decode: EventCodec['decode']
    readonly clock: Clock
    readonly calendar: Calendar
  },
  sink: Sink,
  options: ExportOptions,
): Promise<Exported> => {
  const { format, onProgress } = options
  const until = endOf(options, calendar)
  const logId = await log.logId()
  const head = await log.head()
  if (until) refuseMomentPastHead(until, head, clock())
  const through = until?.kind === 'position' ? until.position : head
  const pages = pageWriterOf(options, logId, { decode, calendar })
  const limit = lastInstantOf(until)
  const cutPage = cutAtTime(limit)
  let position = 0
  let events = 0
  let bytes = 0
  const write = async (text: string): Promise<void> => {
    bytes += Buffer.byteLength(text)
    await sink.write(text)
  }
  await write(pages.head())
  for await (const read of readLog(log, through)) {
    const { page, rest } = cutPage(read)
    await write(pages.events(page))
    position = page.at(-1)?.position ?? position
    events += page.length
    onProgress?.(read.at(-1)?.position ?? position, events)
    if (limit === null || rest.length === 0) continue
    const datedBack = pages.datedBack(rest, limit)
    if (datedBack === null) break
    await write(datedBack)
  }
  await write(pages.end())
  await sink.finish()
  const openFrom = pages.openFrom()
  const isOpen = limit !== null && openFrom !== null && openFrom <= limit
  return { format, position, events, bytes, openFrom: isOpen ? openFrom : null }
}
