import { randomUUID } from 'node:crypto'
import { type AppendResult, NO_STREAM } from '@eventstore/db-client'
import type { LimitFunction } from 'p-limit'
import { withTimeout } from '../../../kernel/every.ts'
import { newEventId } from '../../../kernel/ids.ts'
import type { StreamName } from '../../../kernel/streams.ts'
import { appendBytes, refusalOf } from '../append-guards.ts'
import { AppendRejected, LogUnavailable, OutcomeUnknown, WrongExpectedRevision } from '../errors.ts'
import type { Append, Appended, AppendItem, ItemOutcome, StoredEvent } from '../port.ts'
import { type ReadDependencies, readPage } from './client.ts'
import { appendFailure, isServerTimeout, logUnavailable, toEventData, toPosition } from './conversions.ts'

export type AppendDependencies = ReadDependencies & {
  readonly limiter: LimitFunction
  readonly appendTimeoutMs: number
}

/** Limit of sends of one append that times out on the server. */
const maxTries = 3

const send = async (
  dependencies: AppendDependencies,
  { stream, expected, events }: Append,
): Promise<AppendResult> => {
  const { client, credentials } = dependencies.connection
  const eventData = events.map(toEventData)
  for (let attempt = 1; ; attempt++)
    try {
      return await client.appendToStream(stream, eventData, {
        expectedRevision: expected === 'noStream' ? NO_STREAM : BigInt(expected),
        requiresLeader: true,
        deadline: dependencies.appendTimeoutMs,
        credentials,
      })
    } catch (error) {
      // The server's time-out of 2 s: it occurs under load, and often when the same append arrives twice at once.
      // Another send of the same append shows whether it was written.
      if (!isServerTimeout(error) || attempt === maxTries) throw error
    }
}

/** Reads the position of an append. The protocol allows the server to omit it for events that were already written. */
const lookUp = async (
  dependencies: AppendDependencies,
  { stream }: Append,
  revision: number,
): Promise<Appended> => {
  const lostOutcome = (cause?: Error) =>
    new OutcomeUnknown(`the place of an append to ${stream} was lost`, { cause })
  const [event] = await readPage(dependencies, stream, { from: revision, count: 1 }).catch((error) => {
    throw lostOutcome(error)
  })
  if (event === undefined) throw lostOutcome()
  return { revision, position: event.position }
}

/**
 * Sends one append. A resend with the same ids at the same expectation gives the first result, also after a restart of
 * the server and after later appends to the stream.
 *
 * @throws WrongExpectedRevision, AppendRejected, LogUnavailable (certainly not written), OutcomeUnknown
 */
const sendAppend = async (dependencies: AppendDependencies, append: Append): Promise<Appended> => {
  // The call has the same deadline, but the search for the leader before the call has no deadline.
  const timeoutError = () =>
    new OutcomeUnknown(`an append to ${append.stream} took more than ${dependencies.appendTimeoutMs} ms`)
  let result: AppendResult
  try {
    result = await dependencies.limiter(() =>
      withTimeout(send(dependencies, append), dependencies.appendTimeoutMs, timeoutError),
    )
  } catch (thrown) {
    throw appendFailure(thrown, append.stream, append.expected)
  }
  const revision = Number(result.nextExpectedRevision)
  if (result.position === undefined) return await lookUp(dependencies, append, revision)
  return { revision, position: toPosition(result.position) }
}

export const failedItem = (error: unknown, landed: readonly Appended[]): ItemOutcome => {
  if (error instanceof WrongExpectedRevision)
    return { status: 'conflict', stream: error.stream, actual: error.actual, landed }
  if (error instanceof AppendRejected) return { status: 'rejected', cause: error, landed }
  if (error instanceof LogUnavailable) return { status: 'unavailable', cause: error, landed }
  if (error instanceof OutcomeUnknown) return { status: 'unknown', cause: error, landed }
  throw error
}

/** The appends of an item in the order of sending. The appends of one group are sent concurrently. */
const groupsOf = (appends: readonly Append[]): readonly (readonly Append[])[] => {
  const groups: Append[][] = []
  for (const append of appends) {
    const group = groups.at(-1)
    const canJoin = append.anyOrder && group?.every((each) => each.anyOrder && each.stream !== append.stream)
    if (group && canJoin) group.push(append)
    else groups.push([append])
  }
  return groups
}

/** Sends the groups of an item one after another, up to the first failure. */
export const sendItem = async (
  dependencies: AppendDependencies,
  { appends }: AppendItem,
): Promise<ItemOutcome> => {
  // All appends are checked before the first is sent, so that an invalid item leaves no prefix.
  for (const append of appends) {
    const refusal = refusalOf(append, appendBytes(append))
    if (refusal !== null) return failedItem(refusal, [])
  }
  const landed: Appended[] = []
  for (const group of groupsOf(appends)) {
    const results = await Promise.allSettled(group.map((append) => sendAppend(dependencies, append)))
    const failures = results.flatMap((each) => (each.status === 'rejected' ? [each.reason as unknown] : []))
    for (const each of results) {
      if (each.status === 'rejected') break
      landed.push(each.value)
    }
    // `OutcomeUnknown` takes precedence: the item must be resolved before the command is decided again.
    if (failures.length > 0)
      return failedItem(failures.find((each) => each instanceof OutcomeUnknown) ?? failures[0], landed)
  }
  return { status: 'landed', appended: landed }
}

/**
 * Returns the result of an item with one append.
 * @throws the error of the append
 */
export const onlyAppend = ({ stream, expected }: Append, outcome: ItemOutcome): Appended => {
  if (outcome.status === 'landed') return outcome.appended[0]!
  if (outcome.status === 'conflict') throw new WrongExpectedRevision(stream, expected, outcome.actual)
  throw outcome.cause
}

/** The id of the log, and the position of the event that stores it. All events of the log come after this position. */
export type Origin = { readonly logId: string; readonly position: number }

/** It has none of the prefixes of Farebox streams, so no reader of the log sees it. */
const originStream = 'farebox-log' as StreamName

const parse = ({ data, position }: StoredEvent): Origin => ({
  logId: (JSON.parse(data) as { logId: string }).logId,
  position,
})

const find = async (dependencies: AppendDependencies): Promise<Origin | null> => {
  const [first] = await readPage(dependencies, originStream, { from: 0, count: 1 })
  return first === undefined ? null : parse(first)
}

const findOrMake = async (dependencies: AppendDependencies): Promise<Origin> => {
  const found = await find(dependencies)
  if (found !== null) return found
  const events = [
    { id: newEventId(), type: 'LogCreated', data: JSON.stringify({ logId: randomUUID() }), metadata: '{}' },
  ]
  try {
    await sendAppend(dependencies, { stream: originStream, expected: 'noStream', events })
  } catch (error) {
    // Another process created it first. After any other error the next call tries again.
    if (!(error instanceof WrongExpectedRevision)) throw logUnavailable(error)
  }
  const newOrigin = await find(dependencies)
  if (newOrigin === null) throw new LogUnavailable(`${originStream} was written and cannot be read yet`)
  return newOrigin
}

/**
 * Returns a function that reads the origin once, and creates it in a log without one.
 * The function throws `LogUnavailable`; the next call then tries again.
 */
export const createOrigin = (dependencies: AppendDependencies): (() => Promise<Origin>) => {
  let origin: Promise<Origin> | null = null
  return () => {
    origin ??= findOrMake(dependencies).catch((error) => {
      origin = null
      throw error
    })
    return origin
  }
}
