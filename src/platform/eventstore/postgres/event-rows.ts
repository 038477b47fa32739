import { writeInt8, writeUuid } from '../../../kernel/digest.ts'
import type { StreamName } from '../../../kernel/streams.ts'
import { type CopyColumn, copyRows, type Format } from '../../postgres/copy-rows.ts'
import { revisionBefore } from '../append-checks.ts'
import type { AppendItem, NewEvent } from '../port.ts'

/** An event of a batch with its place in its stream. */
export type EventRow = { readonly stream: StreamName; readonly revision: number; readonly event: NewEvent }

const text: Format<string> = { kind: 'text', text: (value) => value }

/** What is copied of an event: its position is set by Postgres. */
export const eventColumns = 'stream, revision, id, type, data, metadata'

const columns: readonly CopyColumn<EventRow>[] = [
  { value: ({ stream }) => stream, format: text },
  { value: ({ revision }) => revision, format: { kind: 'fixed', bytes: 8, write: writeInt8 } },
  { value: ({ event }) => event.id, format: { kind: 'fixed', bytes: 16, write: writeUuid } },
  { value: ({ event }) => event.type, format: text },
  { value: ({ event }) => event.data, format: text },
  { value: ({ event }) => event.metadata, format: text },
]

/** The events of a batch in the order in which they are written. @param landed whether the append of this ordinal lands */
export const rowsOf = (
  items: readonly AppendItem[],
  landed: (append: number) => boolean = () => true,
): readonly EventRow[] => {
  const rows: EventRow[] = []
  let append = 0
  for (const { appends } of items)
    for (const { stream, expected, events } of appends) {
      if (!landed(append++)) continue
      let revision = revisionBefore(expected)
      for (const event of events) rows.push({ stream, revision: ++revision, event })
    }
  return rows
}

/** As a `copy` of `eventColumns` takes them. */
export const copyOf = (rows: readonly EventRow[]): Buffer => copyRows(columns, rows)
