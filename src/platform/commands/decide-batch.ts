import { isoTime, maxAheadMs } from '../../kernel/clock.ts'
import type { DomainEvent, EventMetadata } from '../../kernel/event.ts'
import { isStorableJson } from '../../kernel/json-text.ts'
import type { StreamName } from '../../kernel/streams.ts'
import { appendBytes } from '../eventstore/append-checks.ts'
import { AppendRejected } from '../eventstore/errors.ts'
import { type Append, maxAppendBytes, type NewEvent } from '../eventstore/port.ts'
import { advance, type FoldPoint, type Slot } from './fold-cache.ts'
import { asError, type PendingCommand, pointOf } from './pending-command.ts'
import type { CommandRunnerDeps, RunnerLimits } from './runner-ports.ts'

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
const slotFinder = ({ command, uses }: PendingCommand): ((stream: StreamName) => Slot) => {
  const index = uses.length > 8 ? new Map(uses.map(({ slot }) => [slot.stream, slot])) : null
  return (stream) => {
    const slot = index ? index.get(stream) : uses.find((use) => use.slot.stream === stream)?.slot
    if (slot === undefined)
      throw new Error(`command ${command.name} appends to ${stream}, which it did not name`)
    return slot
  }
}

let latest = { atMs: Number.NaN, time: '' }
/** What an event of a time may say of the past at most; the last one is kept, as a batch decides at one instant. */
const latestAt = (atMs: number): string => {
  if (atMs !== latest.atMs) latest = { atMs, time: new Date(atMs + maxAheadMs).toISOString() }
  return latest.time
}

type Writing = { readonly append: Append; readonly point: FoldPoint; readonly bytes: number }

const write = (
  { newEventId, codec, laterThan }: DecideDeps,
  slot: Slot,
  from: FoldPoint,
  events: readonly DomainEvent[],
  decision: EventMetadata,
  nowMs: number,
): Writing => {
  let point = from
  const written: NewEvent[] = []
  // A stream that ends with an event of the future goes on at the time of that event.
  const metadata =
    from.recordedAtMs > nowMs ? { ...decision, continuesAt: isoTime(from.recordedAtMs) } : decision
  for (const event of events) {
    const later = laterThan?.(event, latestAt(Math.max(nowMs, from.recordedAtMs)))
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

/**
 * Decides one command on the overlay and encodes what it appends. The overlay stays as it is.
 * @throws what `decide` throws; Error when it breaks its contract; AppendRejected above 1 MiB in one
 * append, for a text that no read table takes, or a time that is to come where one has come
 */
export const decideCommand = (deps: DecideDeps, pending: PendingCommand, overlay: Overlay): Decided => {
  const { command, uses } = pending
  const states: Record<string, unknown> = {}
  const clockMs = deps.clock()
  let nowMs = clockMs
  for (const { key, slot } of uses) {
    const point = overlay.get(slot) ?? pointOf(slot)
    states[key] = point.state
    // Another process's clock may be a little ahead. What is later is of the future, and its time is not carried on.
    if (point.recordedAtMs > nowMs && point.recordedAtMs <= clockMs + maxAheadMs) nowMs = point.recordedAtMs
  }
  const decision = command.decide(states as never, { nowMs })
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
  for (const { stream, events, anyOrder } of decision.appends) {
    if (events.length === 0) throw new Error(`command ${command.name} appends no events to ${stream}`)
    const slot = slotOf(stream)
    const from = points.get(slot) ?? overlay.get(slot) ?? pointOf(slot)
    const writing = write(deps, slot, from, events, metadata, nowMs)
    points.set(slot, writing.point)
    appends.push(anyOrder ? { ...writing.append, anyOrder } : writing.append)
    bytes += writing.bytes
    count += events.length
  }
  return { answer: decision.answer, appends, points, bytes, events: count }
}

/** Joins the commands of a batch by the streams that they write: union-find over their indexes. */
export const createGroups = () => {
  const parents: number[] = []
  const rootOf = (at: number): number => {
    let root = at
    while (parents[root] !== root) root = parents[root]!
    while (parents[at] !== root) {
      const next = parents[at]!
      parents[at] = root
      at = next
    }
    return root
  }
  return {
    rootOf,
    add: (): number => parents.push(parents.length) - 1,
    // The smaller index stays the root, so that items keep the order of their first commands.
    join(one: number, other: number) {
      const [a, b] = [rootOf(one), rootOf(other)]
      parents[Math.max(a, b)] = Math.min(a, b)
    },
  }
}

/** A decided command of an item. Without appends it only rests on what the item's former members decided. */
export type DecidedCommand = {
  readonly pending: PendingCommand
  readonly answer: unknown
  /** Index of its last append in the item; -1 without appends. */
  lastAppend: number
  /** Streams whose end was not seen since the command arrived. */
  readonly unverified: readonly Slot[]
}

/** Decisions that share streams, and what they write: one item of `appendAll`. */
export type BatchItem = {
  readonly members: DecidedCommand[]
  readonly appends: Append[]
  /** What the streams will be when the item has landed. */
  readonly points: Map<Slot, FoldPoint>
}

export type Batch = {
  readonly items: readonly BatchItem[]
  /** Answered without appends from states that are fresh. */
  readonly answered: readonly { readonly pending: PendingCommand; readonly answer: unknown }[]
  /** Rest on states that may be old and that no append checks: to be decided again on fresh ones. */
  readonly unverified: readonly PendingCommand[]
  readonly failed: readonly { readonly pending: PendingCommand; readonly error: Error }[]
  /** Did not fit. */
  readonly left: readonly PendingCommand[]
  readonly commands: number
  readonly events: number
}

type BatchDeps = DecideDeps & { readonly limits: Pick<RunnerLimits, 'batchBytes'> }

type PlacedCommand = { readonly group: number; readonly member: DecidedCommand; readonly decided: Decided }

const formItems = (
  placed: readonly PlacedCommand[],
  rootOf: (group: number) => number,
): readonly BatchItem[] => {
  const items = new Map<number, BatchItem>()
  for (const { group, member, decided } of placed) {
    const root = rootOf(group)
    let item = items.get(root)
    if (item === undefined) {
      item = { members: [], appends: [], points: new Map() }
      items.set(root, item)
    }
    item.members.push(member)
    for (const append of decided.appends) item.appends.push(append)
    if (decided.appends.length > 0) member.lastAppend = item.appends.length - 1
    for (const [slot, point] of decided.points) item.points.set(slot, point)
  }
  return [...items.values()]
}

/**
 * Decides commands in the order given, each on what the former ones leave, and forms the items to write.
 * Nothing is published, so that dropping the batch undoes it.
 */
export const decideBatch = (deps: BatchDeps, pendings: readonly PendingCommand[]): Batch => {
  const overlay = new Map<Slot, FoldPoint>()
  const lastWriter = new Map<Slot, number>()
  const groups = createGroups()
  const placed: PlacedCommand[] = []
  const answered: { pending: PendingCommand; answer: unknown }[] = []
  const unverified: PendingCommand[] = []
  const failed: { pending: PendingCommand; error: Error }[] = []
  let left: readonly PendingCommand[] = []
  let bytes = 0
  let commands = 0
  let events = 0

  for (const [at, pending] of pendings.entries()) {
    let decided: Decided
    try {
      decided = decideCommand(deps, pending, overlay)
    } catch (thrown) {
      failed.push({ pending, error: asError(thrown) })
      continue
    }
    if (bytes > 0 && bytes + decided.bytes > deps.limits.batchBytes) {
      left = pendings.slice(at)
      break
    }
    const { uses, arrival } = pending
    const { answer, points } = decided
    const writes = decided.appends.length > 0
    const rests = uses.some(({ slot }) => lastWriter.has(slot))
    const stale = uses.filter(({ slot }) => slot.verifiedAt <= arrival).map(({ slot }) => slot)
    // The log checks the streams that are written and no others: all others must have been read since the command came.
    const unchecked = writes && stale.some((slot) => !points.has(slot) && !overlay.has(slot))
    if (unchecked || (!writes && !rests && stale.length > 0)) {
      unverified.push(pending)
      continue
    }
    if (!writes && !rests) {
      answered.push({ pending, answer })
      continue
    }
    const group = groups.add()
    placed.push({ group, member: { pending, answer, lastAppend: -1, unverified: stale }, decided })
    for (const { slot } of uses) {
      const writer = lastWriter.get(slot)
      if (writer !== undefined) groups.join(writer, group)
    }
    for (const [slot, point] of points) {
      overlay.set(slot, point)
      lastWriter.set(slot, group)
    }
    if (writes) commands++
    bytes += decided.bytes
    events += decided.events
  }
  return { items: formItems(placed, groups.rootOf), answered, unverified, failed, left, commands, events }
}
