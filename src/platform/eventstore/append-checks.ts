import { isStorable } from '../../kernel/json-text.ts'
import type { StreamName } from '../../kernel/streams.ts'
import { AppendRejected } from './errors.ts'
import { type Append, type AppendItem, type Expected, maxAppendBytes } from './port.ts'

const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
const uuidBytes = 36

/** The revision of the last event before the append; -1 for a stream that must not exist. */
export const revisionBefore = (expected: Expected): number => (expected === 'noStream' ? -1 : expected)

export const expectedFrom = (lastRevision: number): Expected => (lastRevision < 0 ? 'noStream' : lastRevision)

/** The size of an append: UTF-8 bytes of types, ids, data and metadata, as `maxAppendBytes` counts them. */
export const appendBytes = (append: Append): number => {
  let bytes = 0
  for (const { type, data, metadata } of append.events)
    bytes += uuidBytes + Buffer.byteLength(type) + Buffer.byteLength(data) + Buffer.byteLength(metadata)
  return bytes
}

/**
 * Returns why every adapter rejects this append, or null: it has no events, it has more than 1 MiB, an id is not a
 * lower-case uuid, or a text contains NUL or a lone surrogate. `bytes` is `appendBytes(append)`.
 */
export const refusalOf = (append: Append, bytes: number): AppendRejected | null => {
  const refused = (reason: string) => new AppendRejected(`append to ${append.stream} refused: ${reason}`)
  if (append.events.length === 0) return refused('it has no events')
  if (bytes > maxAppendBytes) return refused(`it has ${bytes} bytes, at most ${maxAppendBytes} are taken`)
  if (append.stream === '' || !isStorable(append.stream)) return refused('its stream has no storable name')
  for (const { id, type, data, metadata } of append.events) {
    if (!uuidPattern.test(id)) return refused(`event id ${JSON.stringify(id)} is no lower-case uuid`)
    if (!(isStorable(type) && isStorable(data) && isStorable(metadata)))
      return refused(`event ${id} holds NUL or a lone surrogate`)
  }
  return null
}

/**
 * Checks the preconditions of `appendAll` (port.ts): expectations are revisions, the appends of an item to one stream
 * follow each other, and no two items share a stream.
 * @throws Error for a bug of the caller
 */
export const assertItems = (items: readonly AppendItem[]): void => {
  const owners = new Map<StreamName, { readonly item: AppendItem; end: number }>()
  for (const item of items)
    for (const { stream, expected, events } of item.appends) {
      if (expected !== 'noStream' && !(Number.isSafeInteger(expected) && expected >= 0))
        throw new Error(`append to ${stream} expects ${expected}, which is no revision`)
      const before = revisionBefore(expected)
      const owner = owners.get(stream)
      if (owner === undefined) owners.set(stream, { item, end: before + events.length })
      else if (owner.item !== item) throw new Error(`two items of one call share the stream ${stream}`)
      else if (owner.end !== before)
        throw new Error(`append to ${stream} at ${expected} does not follow its item's former one`)
      else owner.end += events.length
    }
}
