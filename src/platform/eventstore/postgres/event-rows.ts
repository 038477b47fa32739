import { writeInt8, writeUuid } from '../../../kernel/binary.ts'
import type { StreamName } from '../../../terms/streams.ts'
import { type CopyColumn, copyRows, type Format } from '../../postgres/copy-rows.ts'
import { revisionBefore } from '../checks.ts'
import type { AppendItem, NewEvent } from '../port.ts'

type EventRow = { readonly stream: StreamName; readonly revision: number; readonly event: NewEvent }

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

/** The events of a batch in the order in which they are written, as a `copy` of `eventColumns` takes them. */
export const eventRows = (
  items: readonly AppendItem[],
): { readonly rows: Buffer; readonly count: number } => {
  const rows: EventRow[] = []
  for (const { appends } of items)
    for (const { stream, expected, events } of appends) {
      let revision = revisionBefore(expected)
      for (const event of events) rows.push({ stream, revision: ++revision, event })
    }
  return { rows: copyRows(columns, rows), count: rows.length }
}
