import { assertItems } from '../../src/platform/eventstore/append-guards.ts'
import {
  AppendRejected,
  LogUnavailable,
  OutcomeUnknown,
  WrongExpectedRevision,
} from '../../src/platform/eventstore/errors.ts'
import type {
  Append,
  Appended,
  AppendItem,
  EventLog,
  ItemOutcome,
} from '../../src/platform/eventstore/port.ts'

/** What happens at one append of an item, in place of its being written and answered. */
export type Stop =
  /** The log is gone: this append and what follows it are not written. */
  | { readonly kind: 'unavailable' }
  /** The answer is lost, whether or not this append was written; what follows it is not written. */
  | { readonly kind: 'unknown'; readonly written: boolean }
  /** The process dies, before or after this append was written: the call throws Crash. */
  | { readonly kind: 'crash'; readonly written: boolean }

export type StopPoint = {
  readonly item: AppendItem
  /** Which append of the item is about to be written. */
  readonly index: number
  readonly append: Append
}

/**
 * Called before each append. To make it conflict, let it write to the append's stream through another log.
 */
export type StopAt = (point: StopPoint) => Promise<Stop | null> | Stop | null

/** The process ended here: no caller gets an outcome. Continue with a new log, like a restarted process. */
export class Crash extends Error {
  override readonly name = 'Crash'
}

/** Stops once, at the n-th append (from 0) of the log. */
export const stopAtAppend = (n: number, stop: Stop): StopAt => {
  let count = 0
  return () => (count++ === n ? stop : null)
}

const thrownFor = ({ stream, expected }: Append, outcome: ItemOutcome): Error => {
  switch (outcome.status) {
    case 'conflict':
      return new WrongExpectedRevision(stream, expected, outcome.actual)
    case 'rejected':
      return new AppendRejected(outcome.cause.message, { cause: outcome.cause })
    case 'unavailable':
      return new LogUnavailable(outcome.cause.message, { cause: outcome.cause })
    case 'unknown':
      return new OutcomeUnknown(outcome.cause.message, { cause: outcome.cause })
    default:
      throw new Error('a landed outcome is no error')
  }
}

/**
 * A log that writes the appends of an item separately, one after another, as the EventStoreDB adapter does,
 * and that stops at a given point: so every prefix of an item can remain, reported or not. Items of a call
 * are written in order, one at a time. Reads are the inner log's.
 */
export const prefixLog = (inner: EventLog, stopAt: StopAt = () => null): EventLog => {
  const writeOne = async (append: Append, landed: readonly Appended[]): Promise<ItemOutcome> => {
    const [outcome] = await inner.appendAll([{ appends: [append] }])
    return outcome!.status === 'landed'
      ? { status: 'landed', appended: [...landed, ...outcome!.appended] }
      : { ...outcome!, landed }
  }

  const stopped = async (stop: Stop, append: Append, landed: readonly Appended[]): Promise<ItemOutcome> => {
    if (stop.kind === 'unavailable')
      return { status: 'unavailable', cause: new Error('stopped: the log is gone'), landed }
    if (stop.written) await writeOne(append, landed)
    if (stop.kind === 'crash') throw new Crash(`stopped at ${append.stream}`)
    return { status: 'unknown', cause: new Error('stopped: the answer is lost'), landed }
  }

  const writeItem = async (item: AppendItem): Promise<ItemOutcome> => {
    let landed: readonly Appended[] = []
    for (const [index, append] of item.appends.entries()) {
      const stop = await stopAt({ item, index, append })
      const outcome = await (stop === null ? writeOne(append, landed) : stopped(stop, append, landed))
      if (outcome.status !== 'landed') return outcome
      landed = outcome.appended
    }
    return { status: 'landed', appended: landed }
  }

  const appendAll = async (items: readonly AppendItem[]): Promise<readonly ItemOutcome[]> => {
    assertItems(items)
    const outcomes: ItemOutcome[] = []
    for (const item of items) outcomes.push(await writeItem(item))
    return outcomes
  }

  const { atomicItems: _, ...reads } = inner
  return {
    ...reads,
    appendAll,
    append: async (stream, expected, events) => {
      const append = { stream, expected, events }
      const [outcome] = await appendAll([{ appends: [append] }])
      if (outcome!.status === 'landed') return outcome!.appended[0]!
      throw thrownFor(append, outcome!)
    },
  }
}
