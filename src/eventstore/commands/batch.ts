import { isoTime } from '../../clock.ts'
import { appendBytes } from '../checks.ts'
import { AppendRejected } from '../errors.ts'
import type { EventMetadata } from '../event.ts'
import { type Append, maxAppendBytes, type NewEvent, type StreamName } from '../port.ts'
import type { Decision } from './command.ts'
import type { RunnerLimits } from './limits.ts'
import { type Pending, pointOf, type Use } from './pending.ts'
import type { CommandRunnerDeps } from './ports.ts'
import { advance, type FoldPoint, type Slot } from './slots.ts'

/** A decided command of an item. Without appends it only rests on what the item's former members decided. */
export type Member = {
  readonly pending: Pending
  readonly answer: unknown
  /** Index of its last append in the item; -1 without appends. */
  lastAppend: number
  /** Streams whose end was not seen since the command arrived. */
  readonly unverified: readonly Slot[]
}

/** Decisions that share streams, and what they write: one item of `appendAll`. */
export type BatchItem = {
  readonly members: Member[]
  readonly appends: Append[]
  /** What the streams will be when the item has landed. */
  readonly points: Map<Slot, FoldPoint>
}

export type Batch = {
  readonly items: readonly BatchItem[]
  /** Answered without appends from states that are fresh. */
  readonly answered: readonly { readonly pending: Pending; readonly answer: unknown }[]
  /** Would be answered without appends, or rest on an absence nobody looked at: to be decided again on fresh states. */
  readonly unverified: readonly Pending[]
  readonly failed: readonly { readonly pending: Pending; readonly error: Error }[]
  /** Did not fit. */
  readonly left: readonly Pending[]
  readonly commands: number
  readonly events: number
}

type Encoded = {
  readonly decision: Decision<unknown>
  readonly appends: readonly Append[]
  readonly points: ReadonlyMap<Slot, FoldPoint>
  readonly bytes: number
  readonly events: number
}

type BatchDeps = Pick<CommandRunnerDeps, 'clock' | 'codec' | 'newEventId'> & { readonly limits: RunnerLimits }

const useOf = (pending: Pending, stream: StreamName): Use => {
  const use = pending.uses.find(({ slot }) => slot.stream === stream)
  if (use === undefined)
    throw new Error(`command ${pending.command.name} appends to ${stream}, which it did not name`)
  return use
}

const asError = (thrown: unknown): Error => (thrown instanceof Error ? thrown : new Error(String(thrown)))

/** The states as the batch's former decisions leave them: an overlay, dropped when they do not land. */
type Overlay = Map<Slot, FoldPoint>

const encodeOne = (deps: BatchDeps, pending: Pending, overlay: Overlay): Encoded => {
  const { command, uses } = pending
  const states: Record<string, unknown> = {}
  let nowMs = deps.clock()
  for (const { key, slot } of uses) {
    const point = overlay.get(slot) ?? pointOf(slot)
    states[key] = point.state
    if (point.recordedAtMs > nowMs) nowMs = point.recordedAtMs
  }
  const decision = command.decide(states as never, { nowMs })
  const metadata: EventMetadata = {
    correlationId: command.correlationId,
    causationId: command.causationId ?? null,
    actor: command.actor,
    recordedAt: isoTime(nowMs),
  }
  const points = new Map<Slot, FoldPoint>()
  const appends: Append[] = []
  let bytes = 0
  let count = 0
  for (const { stream, events } of decision.appends) {
    const { slot } = useOf(pending, stream)
    let point = points.get(slot) ?? overlay.get(slot) ?? pointOf(slot)
    if (events.length === 0) throw new Error(`command ${command.name} appends no events to ${stream}`)
    const expected = point.revision < 0 ? 'noStream' : point.revision
    const written: NewEvent[] = []
    for (const event of events) {
      const id = deps.newEventId()
      const { type, data, metadata: meta } = deps.codec.encode(event, metadata)
      written.push({ id, type, data, metadata: meta })
      point = advance(slot.fold, point, event, id, nowMs)
    }
    const append = { stream, expected, events: written } as const
    const weight = appendBytes(append)
    // One command's fault, known before it could spoil the batch that it shares.
    if (weight > maxAppendBytes)
      throw new AppendRejected(
        `${weight} bytes in one append to ${stream}, at most ${maxAppendBytes} are taken`,
      )
    points.set(slot, point)
    appends.push(append)
    bytes += weight
    count += events.length
  }
  return { decision, appends, points, bytes, events: count }
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
    // The smaller index stays the root, so that items keep the order of their first commands.
    join(one: number, other: number) {
      const [a, b] = [rootOf(one), rootOf(other)]
      parents[Math.max(a, b)] = Math.min(a, b)
    },
  }
}

/**
 * Decides commands in the order given, each on what the former ones leave, and forms the items to write.
 * Pure but for the injected clock and ids: nothing is published, so that dropping the batch undoes it.
 */
export const decideBatch = (deps: BatchDeps, pendings: readonly Pending[]): Batch => {
  const overlay: Overlay = new Map()
  const lastWriter = new Map<Slot, number>()
  const groups = createGroups()
  const decided: { readonly member: Member; readonly encoded: Encoded }[] = []
  const answered: { pending: Pending; answer: unknown }[] = []
  const unverified: Pending[] = []
  const failed: { pending: Pending; error: Error }[] = []
  let left: readonly Pending[] = []
  let bytes = 0
  let commands = 0
  let events = 0

  for (const [at, pending] of pendings.entries()) {
    let encoded: Encoded
    try {
      encoded = encodeOne(deps, pending, overlay)
    } catch (thrown) {
      failed.push({ pending, error: asError(thrown) })
      continue
    }
    if (bytes > 0 && bytes + encoded.bytes > deps.limits.batchBytes) {
      left = pendings.slice(at)
      break
    }
    const { uses, arrival } = pending
    const writes = encoded.appends.length > 0
    const rests = uses.some(({ slot }) => lastWriter.has(slot))
    const stale = uses.filter(({ slot }) => slot.verifiedAt <= arrival).map(({ slot }) => slot)
    // An absence that nobody looked at and that no `noStream` will check decides nothing.
    const blind =
      writes && uses.some(({ slot }) => !slot.point && !overlay.has(slot) && !encoded.points.has(slot))
    if (blind || (!writes && !rests && stale.length > 0)) {
      unverified.push(pending)
      continue
    }
    const { answer } = encoded.decision
    if (!writes && !rests) {
      answered.push({ pending, answer })
      continue
    }
    const index = groups.add()
    decided.push({ member: { pending, answer, lastAppend: -1, unverified: stale }, encoded })
    for (const { slot } of uses) {
      const writer = lastWriter.get(slot)
      if (writer !== undefined) groups.join(writer, index)
    }
    for (const [slot, point] of encoded.points) {
      overlay.set(slot, point)
      lastWriter.set(slot, index)
    }
    if (writes) commands++
    bytes += encoded.bytes
    events += encoded.events
  }

  const items = new Map<number, BatchItem>()
  for (const [index, { member, encoded }] of decided.entries()) {
    const root = groups.rootOf(index)
    let item = items.get(root)
    if (item === undefined) {
      item = { members: [], appends: [], points: new Map() }
      items.set(root, item)
    }
    item.members.push(member)
    for (const append of encoded.appends) item.appends.push(append)
    if (encoded.appends.length > 0) member.lastAppend = item.appends.length - 1
    for (const [slot, point] of encoded.points) item.points.set(slot, point)
  }
  return { items: [...items.values()], answered, unverified, failed, left, commands, events }
}
