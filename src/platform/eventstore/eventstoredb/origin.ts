import { randomUUID } from 'node:crypto'
import { newEventId } from '../../../kernel/ids.ts'
import type { StreamName } from '../../../terms/streams.ts'
import { LogUnavailable, WrongExpectedRevision } from '../errors.ts'
import type { StoredEvent } from '../port.ts'
import { type AppendDeps, sendAppend } from './append.ts'
import { logUnavailable } from './failures.ts'
import { readPage } from './read-page.ts'

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
