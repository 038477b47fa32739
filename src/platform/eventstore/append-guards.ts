import { type Clock, isoTime, type MonotonicClock, maxAheadMs } from '../../kernel/clock.ts'
import { isStorable } from '../../kernel/json-text.ts'
import type { StreamName } from '../../kernel/streams.ts'
import { decisionMs } from './codec.ts'
import { AppendRejected, DecidedInFuture, LogUnavailable } from './errors.ts'
import {
  type Append,
  type Appended,
  type AppendItem,
  type EventLog,
  type Expected,
  type ItemOutcome,
  maxAppendBytes,
} from './port.ts'

const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
const uuidBytes = 36

/** The revision of the last event before the append; -1 for a stream that must not exist. */
export const revisionBefore = (expected: Expected): number => (expected === 'noStream' ? -1 : expected)

export const expectedFrom = (lastRevision: number): Expected => (lastRevision < 0 ? 'noStream' : lastRevision)

/** The size of an append: UTF-8 bytes of types, ids, data and metadata, as `maxAppendBytes` counts them. */
export const appendBytes = (append: Append): number => {
  let bytes = 0
  for (const { type, data, metadata } of append.events)
    bytes += uuidBytes + Buffer.byteLength(type) + Buffer.byteLength(data) + Buffer.byteLength(metadata)
  return bytes
}

/**
 * Returns why every adapter rejects this append, or null: it has no events, it has more than 1 MiB, an id is not a
 * lower-case uuid, or a text contains NUL or a lone surrogate. `bytes` is `appendBytes(append)`.
 */
export const refusalOf = (append: Append, bytes: number): AppendRejected | null => {
  const refused = (reason: string) => new AppendRejected(`append to ${append.stream} refused: ${reason}`)
  if (append.events.length === 0) return refused('it has no events')
  if (bytes > maxAppendBytes) return refused(`it has ${bytes} bytes, at most ${maxAppendBytes} are taken`)
  if (append.stream === '' || !isStorable(append.stream)) return refused('its stream has no storable name')
  for (const { id, type, data, metadata } of append.events) {
    if (!uuidPattern.test(id)) return refused(`event id ${JSON.stringify(id)} is no lower-case uuid`)
    if (!(isStorable(type) && isStorable(data) && isStorable(metadata)))
      return refused(`event ${id} holds NUL or a lone surrogate`)
  }
  return null
}

/**
 * Checks the preconditions of `appendAll` (port.ts): expectations are revisions, the appends of an item to one stream
 * follow each other, and no two items share a stream.
 * @throws Error for a bug of the caller
 */
export const assertItems = (items: readonly AppendItem[]): void => {
  const owners = new Map<StreamName, { readonly item: AppendItem; end: number }>()
  for (const item of items)
    for (const { stream, expected, events } of item.appends) {
      if (expected !== 'noStream' && !(Number.isSafeInteger(expected) && expected >= 0))
        throw new Error(`append to ${stream} expects ${expected}, which is no revision`)
      const before = revisionBefore(expected)
      const owner = owners.get(stream)
      if (owner === undefined) owners.set(stream, { item, end: before + events.length })
      else if (owner.item !== item) throw new Error(`two items of one call share the stream ${stream}`)
      else if (owner.end !== before)
        throw new Error(`append to ${stream} at ${expected} does not follow its item's former one`)
      else owner.end += events.length
    }
}

/** The time of the latest decision of these items, milliseconds; -Infinity if no metadata have a valid time. */
export const latestDecision = (items: readonly AppendItem[]): number => {
  let latestMs = Number.NEGATIVE_INFINITY
  // The events of one decision have equal metadata and follow one another.
  let read = ''
  for (const { appends } of items)
    for (const { events } of appends)
      for (const { metadata } of events) {
        if (metadata === read) continue
        read = metadata
        const atMs = decisionMs(metadata)
        if (atMs >= 0 && atMs > latestMs) latestMs = atMs
      }
  return latestMs
}

/** Finds the events of an item in the log. Returns null unless the log has all of them. */
const findStanding = async (
  log: Pick<EventLog, 'readStream'>,
  { appends }: AppendItem,
): Promise<readonly Appended[] | null> => {
  const appended: Appended[] = []
  for (const { stream, expected, events } of appends) {
    let at = 0
    for await (const { id, revision, position } of log.readStream(stream, revisionBefore(expected) + 1)) {
      if (id !== events[at]?.id) return null
      at += 1
      if (at < events.length) continue
      appended.push({ revision, position })
      break
    }
    if (at < events.length) return null
  }
  return appended
}

/**
 * The same log with checked appends. It refuses every append while the clock is wrong, and every append whose decision
 * is later than the clock. This covers every writer: the command runner, webhooks, seals and the import. An append that
 * the log already has, because it was sent before the clocks were set back, gets its first outcome again.
 */
export const guardAppends = (
  log: EventLog,
  { clock, problem }: { readonly clock: Clock; readonly problem: () => string | null },
): EventLog => {
  const futureOutcome = async (item: AppendItem, decided: number, nowMs: number): Promise<ItemOutcome> => {
    const message = `an event of ${isoTime(decided)} is of the future: it is ${isoTime(nowMs)} now`
    try {
      const appended = await findStanding(log, item)
      if (appended !== null) return { status: 'landed', appended }
      return { status: 'unavailable', cause: new DecidedInFuture(message), landed: [] }
    } catch (error) {
      return { status: 'unavailable', cause: new LogUnavailable(message, { cause: error }), landed: [] }
    }
  }
  /** The outcome of an item with an event of the future. Null: append the item to the log. */
  const outcomeOf = (item: AppendItem): Promise<ItemOutcome> | null => {
    const nowMs = clock()
    const decided = latestDecision([item])
    return decided > nowMs + maxAheadMs ? futureOutcome(item, decided, nowMs) : null
  }
  const appendAll: EventLog['appendAll'] = async (items) => {
    const clockProblem = problem()
    if (clockProblem !== null) {
      const cause = new LogUnavailable(`nothing is appended: ${clockProblem}`)
      return items.map(() => ({ status: 'unavailable', cause, landed: [] }))
    }
    const outcomes = items.map(outcomeOf)
    if (outcomes.every((outcome) => outcome === null)) return log.appendAll(items)
    const accepted = items.filter((_, at) => outcomes[at] === null)
    const written = accepted.length === 0 ? [] : [...(await log.appendAll(accepted))]
    return Promise.all(outcomes.map((outcome) => outcome ?? written.shift()!))
  }
  return {
    ...log,
    append: async (stream, expected, events) => {
      const clockProblem = problem()
      if (clockProblem !== null) throw new LogUnavailable(`nothing is appended: ${clockProblem}`)
      const outcome = await outcomeOf({ appends: [{ stream, expected, events }] })
      if (outcome === null) return log.append(stream, expected, events)
      if (outcome.status === 'landed') return outcome.appended[0]!
      throw outcome.status === 'unavailable' ? outcome.cause : new LogUnavailable(outcome.status)
    },
    appendAll,
  }
}

/** Whether appends succeed. Only failed appends reveal a full disk or a read-only database: reads still succeed. */
export type AppendHealth = {
  /** The error of the last failed append. Null after a successful one, and ten seconds after the last failure. */
  problem(): string | null
}

/**
 * Appends count as failing for this time after the last failure. A service that is not ready receives no orders, so it
 * must become ready without a successful append: only the next order shows whether appends succeed again.
 */
const rememberMs = 10_000

/**
 * Returns the same log, and the health of its appends. Calls `onChange` once when appends begin to fail, and once with
 * null when an append succeeds again.
 */
export const monitorAppends = (
  log: EventLog,
  dependencies: {
    readonly onChange: (problem: Error | null) => void
    readonly monotonicMs?: MonotonicClock
  },
): { readonly log: EventLog; readonly health: AppendHealth } => {
  const { onChange, monotonicMs = () => performance.now() } = dependencies
  let lastFailure: { readonly cause: Error; readonly atMs: number } | null = null

  const noteFailure = (cause: Error): void => {
    const isNew = lastFailure === null
    lastFailure = { cause, atMs: monotonicMs() }
    if (isNew) onChange(cause)
  }
  const noteSuccess = (): void => {
    if (lastFailure === null) return
    lastFailure = null
    onChange(null)
  }
  const noteOutcomes = (outcomes: readonly ItemOutcome[]): void => {
    const failed = outcomes.find((outcome) => outcome.status === 'unavailable')
    if (failed !== undefined) noteFailure(failed.cause)
    else if (outcomes.some(({ status }) => status === 'landed')) noteSuccess()
  }

  return {
    log: {
      ...log,
      appendAll: async (items) => {
        const outcomes = await log.appendAll(items)
        noteOutcomes(outcomes)
        return outcomes
      },
    },
    health: {
      problem: () =>
        lastFailure === null || monotonicMs() - lastFailure.atMs > rememberMs
          ? null
          : `appends fail: ${lastFailure.cause.message}`,
    },
  }
}
