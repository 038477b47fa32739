import { type AppendResult, NO_STREAM } from '@eventstore/db-client'
import { OutcomeUnknown } from '../errors.ts'
import type { Append, Appended } from '../port.ts'
import { within } from '../within.ts'
import type { AtMost } from './at-most.ts'
import { appendFailure, isServerTimeout } from './failures.ts'
import { type ReadDeps, readPage } from './read-page.ts'
import { toEventData, toPosition } from './wire.ts'

export type AppendDeps = ReadDeps & { readonly atMost: AtMost; readonly appendTimeoutMs: number }

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
    result = await deps.atMost(() => within(send(deps, append), deps.appendTimeoutMs, late))
  } catch (thrown) {
    throw appendFailure(thrown, append.stream, append.expected)
  }
  const revision = Number(result.nextExpectedRevision)
  if (result.position === undefined) return await lookUp(deps, append, revision)
  return { revision, position: toPosition(result.position) }
}
