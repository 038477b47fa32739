import { appendBytes, refusalOf } from '../checks.ts'
import { AppendRejected, LogUnavailable, OutcomeUnknown, WrongExpectedRevision } from '../errors.ts'
import type { Append, Appended, AppendItem, ItemOutcome } from '../port.ts'
import { type AppendDeps, sendAppend } from './append.ts'

export const failedItem = (error: unknown, landed: readonly Appended[]): ItemOutcome => {
  if (error instanceof WrongExpectedRevision)
    return { status: 'conflict', stream: error.stream, actual: error.actual, landed }
  if (error instanceof AppendRejected) return { status: 'rejected', cause: error, landed }
  if (error instanceof LogUnavailable) return { status: 'unavailable', cause: error, landed }
  if (error instanceof OutcomeUnknown) return { status: 'unknown', cause: error, landed }
  throw error
}

/** Sends an item's appends one after another up to the first that does not land, and says how far it came. */
export const sendItem = async (deps: AppendDeps, { appends }: AppendItem): Promise<ItemOutcome> => {
  // Looked at before the first is sent, so that no prefix stands of an item that can never land.
  for (const append of appends) {
    const refusal = refusalOf(append, appendBytes(append))
    if (refusal !== null) return failedItem(refusal, [])
  }
  const landed: Appended[] = []
  try {
    for (const append of appends) landed.push(await sendAppend(deps, append))
  } catch (error) {
    return failedItem(error, landed)
  }
  return { status: 'landed', appended: landed }
}

/** The outcome of an item of one append as its result. @throws what kept it from landing */
export const onlyAppend = ({ stream, expected }: Append, outcome: ItemOutcome): Appended => {
  if (outcome.status === 'landed') return outcome.appended[0]!
  if (outcome.status === 'conflict') throw new WrongExpectedRevision(stream, expected, outcome.actual)
  throw outcome.cause
}
