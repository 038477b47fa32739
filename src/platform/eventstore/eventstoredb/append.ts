import { randomUUID } from 'node:crypto'
import { type AppendResult, NO_STREAM } from '@eventstore/db-client'
import { newEventId } from '../../../kernel/ids.ts'
import type { StreamName } from '../../../kernel/streams.ts'
import { appendBytes, refusalOf } from '../append-checks.ts'
import {
  AppendRejected,
  LogUnavailable,
  OutcomeUnknown,
  WrongExpectedRevision,
  withTimeout,
} from '../errors.ts'
import type { Append, Appended, AppendItem, ItemOutcome, StoredEvent } from '../port.ts'
import type { ConcurrencyLimiter } from './client.ts'
import { type ReadDeps, readPage } from './client.ts'
import { appendFailure, isServerTimeout, logUnavailable, toEventData, toPosition } from './conversions.ts'

export type AppendDeps = ReadDeps & { readonly limiter: ConcurrencyLimiter; readonly appendTimeoutMs: number }

/** How often an append is sent when the server gives up on it. */
const maxTries = 3

const send = async (deps: AppendDeps, { stream, expected, events }: Append): Promise<AppendResult> => {
  const { client, credentials } = deps.connection
  const eventData = events.map(toEventData)
  for (let tries = 1; ; tries++)
    try {
      return await client.appendToStream(stream, eventData, {
        expectedRevision: expected === 'noStream' ? NO_STREAM : BigInt(expected),
        requiresLeader: true,
        deadline: deps.appendTimeoutMs,
        credentials,
      })
    } catch (error) {
      // The server's own time-out of 2 s: under load, and often when the same append came twice at once. What it then
      // did is found by sending the same again.
      if (!isServerTimeout(error) || tries === maxTries) throw error
    }
}

/** The protocol lets a server that found the events already written leave their position out. */
const lookUp = async (deps: AppendDeps, { stream }: Append, revision: number): Promise<Appended> => {
  const lost = (cause?: Error) =>
    new OutcomeUnknown(`the place of an append to ${stream} was lost`, { cause })
  const [event] = await readPage(deps, stream, { from: revision, count: 1 }).catch((error) => {
    throw lost(error)
  })
  if (event === undefined) throw lost()
  return { revision, position: event.position }
}

/**
 * Sends one append. Sent again with the same ids at the same expectation, the server gives the first result, also
 * after a restart and when the stream went on.
 *
 * @throws WrongExpectedRevision, AppendRejected, LogUnavailable (surely not written), OutcomeUnknown
 */
export const sendAppend = async (deps: AppendDeps, append: Append): Promise<Appended> => {
  // The call has the same deadline, but the search for the leader before it has none.
  const late = () =>
    new OutcomeUnknown(`an append to ${append.stream} took more than ${deps.appendTimeoutMs} ms`)
  let result: AppendResult
  try {
    result = await deps.limiter(() => withTimeout(send(deps, append), deps.appendTimeoutMs, late))
  } catch (thrown) {
    throw appendFailure(thrown, append.stream, append.expected)
  }
  const revision = Number(result.nextExpectedRevision)
  if (result.position === undefined) return await lookUp(deps, append, revision)
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

/** An item's appends in the order in which they are sent; those of one group are sent at once. */
const groupsOf = (appends: readonly Append[]): readonly (readonly Append[])[] => {
  const groups: Append[][] = []
  for (const append of appends) {
    const group = groups.at(-1)
    const joins = append.anyOrder && group?.every((each) => each.anyOrder && each.stream !== append.stream)
    if (group && joins) group.push(append)
    else groups.push([append])
  }
  return groups
}

/** Sends an item's appends one group after another up to the first that does not land, and says how far it came. */
export const sendItem = async (deps: AppendDeps, { appends }: AppendItem): Promise<ItemOutcome> => {
  // Looked at before the first is sent, so that no prefix stands of an item that can never land.
  for (const append of appends) {
    const refusal = refusalOf(append, appendBytes(append))
    if (refusal !== null) return failedItem(refusal, [])
  }
  const landed: Appended[] = []
  for (const group of groupsOf(appends)) {
    const sent = await Promise.allSettled(group.map((append) => sendAppend(deps, append)))
    const failures = sent.flatMap((each) => (each.status === 'rejected' ? [each.reason as unknown] : []))
    for (const each of sent) {
      if (each.status === 'rejected') break
      landed.push(each.value)
    }
    // What may still land must be known before anything is decided anew.
    if (failures.length > 0)
      return failedItem(failures.find((each) => each instanceof OutcomeUnknown) ?? failures[0], landed)
  }
  return { status: 'landed', appended: landed }
}

/** The outcome of an item of one append as its result. @throws what kept it from landing */
export const onlyAppend = ({ stream, expected }: Append, outcome: ItemOutcome): Appended => {
  if (outcome.status === 'landed') return outcome.appended[0]!
  if (outcome.status === 'conflict') throw new WrongExpectedRevision(stream, expected, outcome.actual)
  throw outcome.cause
}

/** The log's id, and the position of the event that holds it: all events of the log come after it. */
export type Origin = { readonly logId: string; readonly position: number }

/** Has none of our prefixes, so no reader of the log sees it. */
const originStream = 'farebox-log' as StreamName

const parse = ({ data, position }: StoredEvent): Origin => ({
  logId: (JSON.parse(data) as { logId: string }).logId,
  position,
})

const find = async (deps: AppendDeps): Promise<Origin | null> => {
  const [first] = await readPage(deps, originStream, { from: 0, count: 1 })
  return first === undefined ? null : parse(first)
}

const findOrMake = async (deps: AppendDeps): Promise<Origin> => {
  const found = await find(deps)
  if (found !== null) return found
  const events = [
    { id: newEventId(), type: 'LogCreated', data: JSON.stringify({ logId: randomUUID() }), metadata: '{}' },
  ]
  try {
    await sendAppend(deps, { stream: originStream, expected: 'noStream', events })
  } catch (error) {
    // Another process made it first; or the answer was lost, and the next call looks again.
    if (!(error instanceof WrongExpectedRevision)) throw logUnavailable(error)
  }
  const made = await find(deps)
  if (made === null) throw new LogUnavailable(`${originStream} was written and cannot be read yet`)
  return made
}

/** Reads the origin once, making it in a log that has none. @throws LogUnavailable, and tries anew with the next call */
export const createOrigin = (deps: AppendDeps): (() => Promise<Origin>) => {
  let origin: Promise<Origin> | null = null
  return () => {
    origin ??= findOrMake(deps).catch((error) => {
      origin = null
      throw error
    })
    return origin
  }
}
