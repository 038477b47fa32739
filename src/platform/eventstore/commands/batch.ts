import type { Append } from '../port.ts'
import { asError } from './as-error.ts'
import { type DecideDeps, type Decided, decideCommand } from './decide-command.ts'
import { createGroups } from './groups.ts'
import type { RunnerLimits } from './limits.ts'
import type { Pending } from './pending.ts'
import type { FoldPoint, Slot } from './slots.ts'

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
  /** Rest on states that may be old and that no append checks: to be decided again on fresh ones. */
  readonly unverified: readonly Pending[]
  readonly failed: readonly { readonly pending: Pending; readonly error: Error }[]
  /** Did not fit. */
  readonly left: readonly Pending[]
  readonly commands: number
  readonly events: number
}

type BatchDeps = DecideDeps & { readonly limits: Pick<RunnerLimits, 'batchBytes'> }

type Placed = { readonly group: number; readonly member: Member; readonly decided: Decided }

const formItems = (placed: readonly Placed[], rootOf: (group: number) => number): readonly BatchItem[] => {
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
export const decideBatch = (deps: BatchDeps, pendings: readonly Pending[]): Batch => {
  const overlay = new Map<Slot, FoldPoint>()
  const lastWriter = new Map<Slot, number>()
  const groups = createGroups()
  const placed: Placed[] = []
  const answered: { pending: Pending; answer: unknown }[] = []
  const unverified: Pending[] = []
  const failed: { pending: Pending; error: Error }[] = []
  let left: readonly Pending[] = []
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
