import { isoTime, maxAheadMs } from '../../kernel/clock.ts'
import type { DomainEvent, EventMetadata } from '../../kernel/event.ts'
import { asError } from '../../kernel/failures.ts'
import { isStorableJson } from '../../kernel/json-text.ts'
import type { StreamName } from '../../kernel/streams.ts'
import { appendBytes } from '../eventstore/append-guards.ts'
import { AppendRejected } from '../eventstore/errors.ts'
import { type Append, maxAppendBytes, type NewEvent } from '../eventstore/port.ts'
import type { CommandRunnerDependencies, RunnerLimits } from './command.ts'
import { type PendingCommand, pointOf } from './command-queue.ts'
import { advance, type FoldPoint, type Slot } from './fold-cache.ts'

/** A decision with the appends that it makes, and the states of its streams after them. */
export type Decided = {
  readonly answer: unknown
  readonly appends: readonly Append[]
  readonly points: ReadonlyMap<Slot, FoldPoint>
  readonly bytes: number
  readonly events: number
}

type DecideDependencies = Pick<CommandRunnerDependencies, 'clock' | 'codec' | 'newEventId' | 'laterThan'>

/** The states after the earlier decisions of the batch. They are dropped if the batch is not appended. */
type Overlay = ReadonlyMap<Slot, FoldPoint>

/** Finds a slot of the command by its stream. An index is slower for few streams. */
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
/** The latest past time that an event of this time may contain. Cached, because a batch decides at one instant. */
const latestAt = (atMs: number): string => {
  if (atMs !== latest.atMs) latest = { atMs, time: new Date(atMs + maxAheadMs).toISOString() }
  return latest.time
}

type Writing = { readonly append: Append; readonly point: FoldPoint; readonly bytes: number }

const write = (
  { newEventId, codec, laterThan }: DecideDependencies,
  slot: Slot,
  from: FoldPoint,
  events: readonly DomainEvent[],
  decision: EventMetadata,
  nowMs: number,
): Writing => {
  let point = from
  const written: NewEvent[] = []
  // After an event of the future, the stream continues at the time of that event.
  const metadata =
    from.recordedAtMs > nowMs ? { ...decision, continuesAt: isoTime(from.recordedAtMs) } : decision
  for (const event of events) {
    const futureTime = laterThan?.(event, latestAt(Math.max(nowMs, from.recordedAtMs)))
    if (futureTime)
      throw new AppendRejected(
        `${event.type} for ${slot.stream} has a future time in ${futureTime.field}: ${futureTime.at}; now it is ${metadata.recordedAt}`,
      )
    const id = newEventId()
    const encoded = codec.encode(event, metadata)
    // Postgres cannot store such a text in a read table: the projections would stop at this event.
    if (!isStorableJson(encoded.data))
      throw new AppendRejected(
        `${event.type} for ${slot.stream} has a text with NUL or half of a surrogate pair`,
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
  // Checked here, so that only this command fails and not its batch.
  if (bytes > maxAppendBytes)
    throw new AppendRejected(
      `${bytes} bytes in one append to ${slot.stream}; at most ${maxAppendBytes} are allowed`,
    )
  return { append, point, bytes }
}

/**
 * Decides one command on the overlay and encodes its appends. The overlay does not change.
 * @throws the error of `decide`; Error if `decide` breaks its contract; AppendRejected for an append above 1 MiB, a
 *   text that no read table can store, or a future time in a field for past times
 */
export const decideCommand = (
  dependencies: DecideDependencies,
  pending: PendingCommand,
  overlay: Overlay,
): Decided => {
  const { command, uses } = pending
  const states: Record<string, unknown> = {}
  const clockMs = dependencies.clock()
  let nowMs = clockMs
  for (const { key, slot } of uses) {
    const point = overlay.get(slot) ?? pointOf(slot)
    states[key] = point.state
    // The clock of another process may be a little ahead. A time further ahead is wrong and is not used.
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
    const writing = write(dependencies, slot, from, events, metadata, nowMs)
    points.set(slot, writing.point)
    appends.push(anyOrder ? { ...writing.append, anyOrder } : writing.append)
    bytes += writing.bytes
    count += events.length
  }
  return { answer: decision.answer, appends, points, bytes, events: count }
}

/** Joins the commands of a batch by the streams that they write: union-find over their indexes. */
const createGroups = () => {
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
    // The smaller index is the root, so that items have the order of their first commands.
    join(one: number, other: number) {
      const [a, b] = [rootOf(one), rootOf(other)]
      parents[Math.max(a, b)] = Math.min(a, b)
    },
  }
}

/** A decided command of an item. Without appends, it depends on the decisions of earlier members. */
export type DecidedCommand = {
  readonly pending: PendingCommand
  readonly answer: unknown
  /** Index of its last append in the item; -1 without appends. */
  lastAppend: number
  /** Streams that were not read since the command arrived. */
  readonly unverified: readonly Slot[]
}

/** Decisions that share streams, and their appends: one item of `appendAll`. */
export type BatchItem = {
  readonly members: DecidedCommand[]
  readonly appends: Append[]
  /** The states of the streams after the item is appended. */
  readonly points: Map<Slot, FoldPoint>
}

export type Batch = {
  readonly items: readonly BatchItem[]
  /** Answered without appends, from fresh states. */
  readonly answered: readonly { readonly pending: PendingCommand; readonly answer: unknown }[]
  /** Must be decided again on fresh states, because no append checks the states that they used. */
  readonly unverified: readonly PendingCommand[]
  readonly failed: readonly { readonly pending: PendingCommand; readonly error: Error }[]
  /** For the next batch: this one is full. */
  readonly left: readonly PendingCommand[]
  readonly commands: number
  readonly events: number
}

type BatchDependencies = DecideDependencies & { readonly limits: Pick<RunnerLimits, 'batchBytes'> }

type PlacedCommand = { readonly group: number; readonly member: DecidedCommand; readonly decided: Decided }

const formItems = (
  placedCommands: readonly PlacedCommand[],
  rootOf: (group: number) => number,
): readonly BatchItem[] => {
  const items = new Map<number, BatchItem>()
  for (const { group, member, decided } of placedCommands) {
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
 * Decides commands in the given order, each on the states that the earlier ones leave, and forms the items to append.
 * The cached states do not change.
 */
export const decideBatch = (dependencies: BatchDependencies, pendings: readonly PendingCommand[]): Batch => {
  const overlay = new Map<Slot, FoldPoint>()
  const lastWriter = new Map<Slot, number>()
  const groups = createGroups()
  const placedCommands: PlacedCommand[] = []
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
      decided = decideCommand(dependencies, pending, overlay)
    } catch (thrown) {
      failed.push({ pending, error: asError(thrown) })
      continue
    }
    if (bytes > 0 && bytes + decided.bytes > dependencies.limits.batchBytes) {
      left = pendings.slice(at)
      break
    }
    const { uses, arrival } = pending
    const { answer, points } = decided
    const writes = decided.appends.length > 0
    const isDependent = uses.some(({ slot }) => lastWriter.has(slot))
    const staleSlots = uses.filter(({ slot }) => slot.verifiedAt <= arrival).map(({ slot }) => slot)
    // The log checks only the streams that are written. All others must have been read since the command arrived.
    const isUnchecked = writes && staleSlots.some((slot) => !points.has(slot) && !overlay.has(slot))
    if (isUnchecked || (!writes && !isDependent && staleSlots.length > 0)) {
      unverified.push(pending)
      continue
    }
    if (!writes && !isDependent) {
      answered.push({ pending, answer })
      continue
    }
    const group = groups.add()
    placedCommands.push({
      group,
      member: { pending, answer, lastAppend: -1, unverified: staleSlots },
      decided,
    })
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
  return {
    items: formItems(placedCommands, groups.rootOf),
    answered,
    unverified,
    failed,
    left,
    commands,
    events,
  }
}
