import { isoTime, maxAheadMs } from '../../../kernel/clock.ts'
import { isStorableJson } from '../../../kernel/storable.ts'
import type { StreamName } from '../../../terms/streams.ts'
import { appendBytes } from '../checks.ts'
import { AppendRejected } from '../errors.ts'
import type { DomainEvent, EventMetadata } from '../event.ts'
import { type Append, maxAppendBytes, type NewEvent } from '../port.ts'
import { CommandOverload } from './command.ts'
import { type Pending, pointOf } from './pending.ts'
import type { CommandRunnerDeps } from './ports.ts'
import { advance, type FoldPoint, type Slot } from './slots.ts'

/** A decision as it is written, and what its streams will be. */
export type Decided = {
  readonly answer: unknown
  readonly appends: readonly Append[]
  readonly points: ReadonlyMap<Slot, FoldPoint>
  readonly bytes: number
  readonly events: number
}

export type DecideDeps = Pick<CommandRunnerDeps, 'clock' | 'codec' | 'newEventId' | 'laterThan'>

/** The states as the batch's former decisions leave them: an overlay, dropped when they do not land. */
export type Overlay = ReadonlyMap<Slot, FoldPoint>

/** Finds a command's slots by stream; few are searched faster than they are indexed. */
const slotFinder = ({ command, uses }: Pending): ((stream: StreamName) => Slot) => {
  const index = uses.length > 8 ? new Map(uses.map(({ slot }) => [slot.stream, slot])) : null
  return (stream) => {
    const slot = index ? index.get(stream) : uses.find((use) => use.slot.stream === stream)?.slot
    if (slot === undefined)
      throw new Error(`command ${command.name} appends to ${stream}, which it did not name`)
    return slot
  }
}

let latest = { nowMs: Number.NaN, time: '' }
/** What a decision of this moment may say of the past at most; the last one is kept, as a batch decides at one instant. */
const latestAt = (nowMs: number): string => {
  if (nowMs !== latest.nowMs) latest = { nowMs, time: new Date(nowMs + maxAheadMs).toISOString() }
  return latest.time
}

type Writing = { readonly append: Append; readonly point: FoldPoint; readonly bytes: number }

const write = (
  { newEventId, codec, laterThan }: DecideDeps,
  slot: Slot,
  from: FoldPoint,
  events: readonly DomainEvent[],
  metadata: EventMetadata,
  nowMs: number,
): Writing => {
  let point = from
  const written: NewEvent[] = []
  for (const event of events) {
    const later = laterThan?.(event, latestAt(nowMs))
    if (later)
      throw new AppendRejected(
        `${event.type} for ${slot.stream} says in ${later.field} what is to happen at ${later.at}: it is ${metadata.recordedAt} now`,
      )
    const id = newEventId()
    const encoded = codec.encode(event, metadata)
    // The log would take it; no read table could, and what reads the log stands still at what it cannot write.
    if (!isStorableJson(encoded.data))
      throw new AppendRejected(
        `${event.type} for ${slot.stream} holds a text with NUL or half of a surrogate pair`,
      )
    written.push({ id, type: encoded.type, data: encoded.data, metadata: encoded.metadata })
    point = advance(slot.fold, point, event, id, nowMs)
  }
  const append: Append = {
    stream: slot.stream,
    expected: from.revision < 0 ? 'noStream' : from.revision,
    events: written,
  }
  const bytes = appendBytes(append)
  // One command's fault, known before it could spoil the batch that it shares.
  if (bytes > maxAppendBytes)
    throw new AppendRejected(
      `${bytes} bytes in one append to ${slot.stream}, at most ${maxAppendBytes} are taken`,
    )
  return { append, point, bytes }
}

/** Until the clock has come there: who reads the answer may wait, or an operator looks at the event. */
const futureRetryS = 30

/**
 * Nothing is written behind an event of the future: what is decided there would carry its time on.
 * @throws CommandOverload
 */
const refuseFuture = (clockMs: number, { uses }: Pending, overlay: Overlay): void => {
  for (const { slot } of uses) {
    const { recordedAtMs } = overlay.get(slot) ?? pointOf(slot)
    if (recordedAtMs > clockMs + maxAheadMs)
      throw new CommandOverload(
        `${slot.stream} ends with an event of the future, recorded at ${isoTime(recordedAtMs)}; the clock reads ${isoTime(clockMs)}`,
        futureRetryS,
      )
  }
}

/**
 * Decides one command on the overlay and encodes what it appends. The overlay stays as it is.
 * @throws what `decide` throws; Error when it breaks its contract; AppendRejected above 1 MiB in one
 * append, for a text that no read table takes, or a time that is to come where one has come;
 * CommandOverload behind an event of the future
 */
export const decideCommand = (deps: DecideDeps, pending: Pending, overlay: Overlay): Decided => {
  const { command, uses } = pending
  const states: Record<string, unknown> = {}
  let nowMs = deps.clock()
  for (const { key, slot } of uses) {
    const point = overlay.get(slot) ?? pointOf(slot)
    states[key] = point.state
    if (point.recordedAtMs > nowMs) nowMs = point.recordedAtMs
  }
  const decision = command.decide(states as never, { nowMs })
  if (decision.appends.length > 0) refuseFuture(deps.clock(), pending, overlay)
  const metadata: EventMetadata = {
    correlationId: command.correlationId,
    causationId: command.causationId ?? null,
    actor: command.actor,
    recordedAt: isoTime(nowMs),
  }
  const slotOf = slotFinder(pending)
  const points = new Map<Slot, FoldPoint>()
  const appends: Append[] = []
  let bytes = 0
  let count = 0
  for (const { stream, events } of decision.appends) {
    if (events.length === 0) throw new Error(`command ${command.name} appends no events to ${stream}`)
    const slot = slotOf(stream)
    const from = points.get(slot) ?? overlay.get(slot) ?? pointOf(slot)
    const writing = write(deps, slot, from, events, metadata, nowMs)
    points.set(slot, writing.point)
    appends.push(writing.append)
    bytes += writing.bytes
    count += events.length
  }
  return { answer: decision.answer, appends, points, bytes, events: count }
}
