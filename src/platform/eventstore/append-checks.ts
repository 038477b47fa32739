import { isStorable } from '../../kernel/json-text.ts'
import type { StreamName } from '../../kernel/streams.ts'
import { AppendRejected } from './errors.ts'
import { type Append, type AppendItem, type Expected, maxAppendBytes } from './port.ts'

const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
const uuidBytes = 36

/** -1 for a stream that must not exist: the revision before its first event. */
export const revisionBefore = (expected: Expected): number => (expected === 'noStream' ? -1 : expected)

export const expectedFrom = (lastRevision: number): Expected => (lastRevision < 0 ? 'noStream' : lastRevision)

/** What one append weighs: UTF-8 bytes of types, ids, data and metadata, as `maxAppendBytes` counts them. */
export const appendBytes = (append: Append): number => {
  let bytes = 0
  for (const { type, data, metadata } of append.events)
    bytes += uuidBytes + Buffer.byteLength(type) + Buffer.byteLength(data) + Buffer.byteLength(metadata)
  return bytes
}

/**
 * Why no log takes this append, or null: no events, more than 1 MiB, an id that is no lower-case uuid, NUL or a lone
 * surrogate in a text. `bytes` is `appendBytes(append)`.
 */
export const refusalOf = (append: Append, bytes: number): AppendRejected | null => {
  const refused = (why: string) => new AppendRejected(`append to ${append.stream} refused: ${why}`)
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
 * Asserts what a caller of `appendAll` promises (port.ts): expectations are revisions, appends of one item to one
 * stream follow each other, items share no stream. A breach is a bug of the caller.
 * @throws Error
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
