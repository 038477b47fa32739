import { once } from 'node:events'
import { LRUCache } from 'lru-cache'
import type { DestinationStream, Logger, LoggerOptions } from 'pino'
import pino from 'pino'
import type { MonotonicClock } from '../../kernel/clock.ts'
import { isTemporary } from '../commands/command.ts'
import { StartRefused } from '../postgres/errors.ts'

/** Bytes that may wait for a disk or a terminal that accepts no output. Further lines are dropped. */
const maxWaiting = 8 * 1024 * 1024

/** The longest wait for the last lines of a process, milliseconds. */
const flushMs = 1_000

/**
 * Writes the log to standard error. A closed terminal or a full disk loses lines and does not end the process. By
 * default, pino ends the process with the error of a write, and its flush repeats a failing write without end.
 */
export const standardErrorLog = (): {
  readonly destination: pino.DestinationStream
  /** Resolves when the waiting lines are written, or are lost because the output does not accept them. */
  flush(): Promise<void>
} => {
  const destination = pino.destination({ dest: 2, sync: false, maxLength: maxWaiting })
  let takesLines = true
  destination.on('error', () => {
    takesLines = false
  })
  destination.on('write', () => {
    takesLines = true
  })
  const flushSync = destination.flushSync.bind(destination)
  // pino calls it when the process ends.
  destination.flushSync = () => {
    if (takesLines) flushSync()
  }
  return {
    destination,
    flush: async () => {
      if (!takesLines) return
      const written = once(destination, 'drain', { signal: AbortSignal.timeout(flushMs) })
      destination.write('') // begins a write if none runs: each ends with the event or an error
      await written.catch(() => {
        takesLines = false
      })
    },
  }
}

/** A failure that lasts is logged again at this interval, milliseconds. */
const repeatIntervalMs = 60_000

/**
 * The maximum number of stored failures. The least recent one is dropped, and is logged at once when it occurs again.
 */
const maxIdentities = 1_000

type TroubleLine = Readonly<Record<string, unknown>> & { readonly err: Error }

/**
 * The identity of a failure: its texts, such as ids and names. It has no figures, which change from one try to the
 * next, and not the request that met the failure. An outage is one failure for all requests.
 */
const identityOf = (
  level: number,
  message: unknown,
  { err, requestId: _, ...fields }: TroubleLine,
): string => {
  const { name, code } = err as { readonly name: string; readonly code?: unknown }
  if (isTemporary(err)) return JSON.stringify([level, message, name, code])
  const texts = Object.entries(fields).filter(([, value]) => typeof value === 'string')
  return JSON.stringify([level, message, name, err.message.replaceAll(/\d+/g, '0'), ...texts])
}

/**
 * Suppresses repeated lines about the same failure. Work that is retried several times a second fails as often during
 * an outage. The first line is logged, then one a minute.
 */
const createLogDeduplicator = (monotonicMs: MonotonicClock) => {
  const reported = new LRUCache<string, { readonly atMs: number; leftOut: number }>({ max: maxIdentities })

  /** The number of lines like this one that were suppressed since the last logged one. Null: suppress this one, too. */
  return (level: number, message: unknown, line: TroubleLine): number | null => {
    const identity = identityOf(level, message, line)
    const last = reported.get(identity)
    const nowMs = monotonicMs()
    if (last !== undefined && nowMs - last.atMs < repeatIntervalMs) {
      last.leftOut += 1
      return null
    }
    reported.set(identity, { atMs: nowMs, leftOut: 0 })
    return last?.leftOut ?? 0
  }
}

/** Names of log fields that may contain secrets and personal data. */
const secretNames: ReadonlySet<string> = new Set([
  'authorization',
  'x-api-key',
  'apiKey',
  'key',
  'password',
  'secret',
  'token',
  'cookie',
  'email',
])

/** Deeper objects are not redacted: modules log ids and figures, not trees. */
const redactDepth = 3

const isPlain = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype

const redactedValue = (name: string, value: unknown, depth: number): unknown => {
  if (secretNames.has(name)) return '[redacted]'
  return depth < redactDepth && isPlain(value) ? redacted(value, depth + 1) : value
}

/** The same object if it has no secret, else a redacted copy. Most lines have no secret and are not copied. */
const redacted = (line: Record<string, unknown>, depth: number): Record<string, unknown> => {
  let copy: Record<string, unknown> | undefined
  for (const name of Object.keys(line)) {
    const value = line[name]
    const shown = redactedValue(name, value, depth)
    if (shown === value) continue
    copy ??= { ...line }
    copy[name] = shown
  }
  return copy ?? line
}

const isFailureLine = (line: unknown): line is TroubleLine => isPlain(line) && line.err instanceof Error

/**
 * Logs lines about the same failure once a minute, with the number of suppressed lines. Fatal lines are always logged.
 */
const onceAMinute = (monotonicMs: MonotonicClock): NonNullable<LoggerOptions['hooks']> => {
  const leftOutBefore = createLogDeduplicator(monotonicMs)
  return {
    logMethod(args, method, level) {
      const [line, ...rest] = args as unknown[]
      if (level >= pino.levels.values.fatal! || !isFailureLine(line)) return method.apply(this, args)
      const leftOut = leftOutBefore(level, rest[0], { ...this.bindings(), ...line })
      if (leftOut === null) return
      method.apply(this, [leftOut === 0 ? line : { ...line, leftOut }, ...rest] as typeof args)
    },
  }
}

/**
 * The texts and figures of an error. Libraries attach objects to it, such as a whole client with the key that cancels
 * its statements; `input` of an invalid address may have a password. Outages, and refusals that say what to do, are
 * logged without a stack. It would only suggest a bug.
 */
const serializedError = (error: Error): Record<string, unknown> => {
  const hasStack = !(isTemporary(error) || error instanceof StartRefused)
  const { stack, aggregateErrors: _, ...fields } = pino.stdSerializers.err(error)
  const shown = Object.entries(fields).filter(
    ([name, value]) =>
      !['object', 'function'].includes(typeof value) && !secretNames.has(name) && name !== 'input',
  )
  return {
    ...Object.fromEntries(shown),
    ...(hasStack && { stack }),
    ...(hasStack &&
      error instanceof AggregateError && { aggregateErrors: error.errors.map(serializedError) }),
  }
}

export type LogLevel = 'fatal' | 'error' | 'warn' | 'info' | 'debug' | 'trace' | 'silent'

/**
 * The logger of a process: JSON lines with ISO 8601 times. Callers never pass requests, headers or bodies to it; the
 * redaction is a second safeguard. Lines are written after the request that caused them, because one write per line
 * costs more than the request (docs/decisions/0004). Log lines that a kill -9 loses are not lost facts: the
 * facts are in the events.
 */
export const createLogger = (
  level: LogLevel,
  destination?: DestinationStream,
  monotonicMs: MonotonicClock = () => performance.now(),
): Logger =>
  pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      hooks: onceAMinute(monotonicMs),
      serializers: { err: serializedError },
      formatters: { log: (line) => redacted(line, 1), bindings: (line) => redacted(line, 1) },
    },
    destination ?? pino.destination({ fd: 1, sync: false }),
  )

const isError = (value: unknown): value is { readonly message?: string; readonly stack?: string } =>
  typeof value === 'object' && value !== null && 'type' in value && 'message' in value

const shown = (value: unknown): string => {
  if (isError(value)) return shown(String(value.message))
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return /^[^\s"=]+$/.test(text) ? text : JSON.stringify(value)
}

/** Lines from this level on report bugs and are printed with their stack. */
const stackFrom = pino.levels.values.error!

/** The time of day of a line, to the second. */
const timeOf = (time: unknown): string => String(time).slice(11, 19)

/** One log line for a terminal: `12:03:04 warn  a connection broke  err="…"`. */
export const prettyLine = (line: string): string => {
  const { level, time, msg, ...rest } = JSON.parse(line) as Record<string, unknown>
  const name = pino.levels.labels[Number(level)] ?? String(level)
  const values = Object.entries(rest).map(([key, value]) => `  ${key}=${shown(value)}`)
  const { err } = rest
  const stack = Number(level) >= stackFrom && isError(err) && err.stack ? `\n${err.stack}` : ''
  return `${timeOf(time)} ${name.padEnd(5)} ${msg ?? ''}${values.join('')}${stack}\n`
}

/** Converts JSON lines to lines for people. Each write must be one JSON line. */
export const prettyLines = (destination: DestinationStream): DestinationStream => ({
  write: (line) => destination.write(prettyLine(line)),
})
