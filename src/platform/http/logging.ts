import { LRUCache } from 'lru-cache'
import type { DestinationStream, Logger, LoggerOptions } from 'pino'
import pino from 'pino'
import type { MonotonicClock } from '../../kernel/clock.ts'
import { isTemporary } from '../commands/command.ts'
import { StartRefused } from '../postgres/errors.ts'

/** What waits for a disk or a terminal that takes nothing; lines above it are dropped. */
const maxWaiting = 8 * 1024 * 1024

/**
 * Standard error as the place of the log. A terminal that was closed or a disk that is full loses lines and ends nothing:
 * left alone, pino would end the process with the error of a write, and wait for ever for such a place when it flushes.
 */
export const standardErrorLog = (): {
  readonly destination: pino.DestinationStream
  /** Writes what waits, unless the last write failed. */
  flush(): void
  /** Nothing is flushed from now on, for whoever read it is gone. */
  giveUp(): void
} => {
  const destination = pino.destination({ dest: 2, sync: false, maxLength: maxWaiting })
  let takesLines = true
  destination.on('error', () => {
    takesLines = false
  })
  destination.on('write', () => {
    takesLines = true
  })
  const flush = destination.flushSync.bind(destination)
  // pino calls it, too, when the process ends.
  destination.flushSync = () => {
    if (takesLines) flush()
  }
  return {
    destination,
    flush: () => destination.flushSync(),
    giveUp: () => {
      takesLines = false
    },
  }
}

/** A trouble that lasts is told again this often, milliseconds. */
const againMs = 60_000

/** Troubles that are known apart; the one that was not met for longest is forgotten, and told when it is met again. */
const knownTroubles = 1_000

export type TroubleLine = Readonly<Record<string, unknown>> & { readonly err: Error }

/**
 * What tells troubles apart: texts, so ids and names, never figures, which change from one try to the next, nor the request
 * that met the trouble. An outage is one trouble, whatever was asked for meanwhile.
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
 * Whether a line about a trouble says something new. What is tried again several times a second fails as often during an
 * outage: its first line is told, then one a minute.
 */
export const createLogDeduplicator = (monotonicMs: MonotonicClock) => {
  const told = new LRUCache<string, { readonly atMs: number; leftOut: number }>({ max: knownTroubles })

  /** How many lines like this one were left out since the last that was told; null for one to leave out. */
  return (level: number, message: unknown, line: TroubleLine): number | null => {
    const identity = identityOf(level, message, line)
    const last = told.get(identity)
    const nowMs = monotonicMs()
    if (last !== undefined && nowMs - last.atMs < againMs) {
      last.leftOut += 1
      return null
    }
    told.set(identity, { atMs: nowMs, leftOut: 0 })
    return last?.leftOut ?? 0
  }
}

/** Names under which secrets and personal data could stand in a log line. */
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

/** Deeper objects are not looked into: modules log ids and figures, not trees. */
const redactDepth = 3

const isPlain = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype

const redactedValue = (name: string, value: unknown, depth: number): unknown => {
  if (secretNames.has(name)) return '[redacted]'
  return depth < redactDepth && isPlain(value) ? redacted(value, depth + 1) : value
}

/** The same object when it holds no secret, else a copy without it: most lines hold none and are not copied. */
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

/** Lines about the same trouble are told once a minute, with how many were left out; what ends the process always. */
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

/** An outage, and a refusal that says what to do, need no stack: it tells where the code met it, and looks like a bug. */
const serializedError = (error: Error) => {
  const written = pino.stdSerializers.err(error)
  return isTemporary(error) || error instanceof StartRefused
    ? { ...written, stack: undefined, aggregateErrors: undefined }
    : written
}

export type LogLevel = 'fatal' | 'error' | 'warn' | 'info' | 'debug' | 'trace' | 'silent'

/**
 * The logger of a process: JSON lines with ISO 8601 times. Requests, headers and bodies are never handed to it; the
 * redaction is the net below that rule. Lines are written behind the request that made them: a write a line costs more
 * than the request (docs/decisions/0004-http.md). What a kill -9 loses of the log stands in the events.
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

/** From here on the log tells of bugs, whose stack helps. */
const stackFrom = pino.levels.values.error!

/** Of a line's time, the part that people at a terminal look at. */
const timeOf = (time: unknown): string => String(time).slice(11, 19)

/** One line of the log as people read it: `12:03:04 warn  a connection broke  err="…"`. */
export const prettyLine = (line: string): string => {
  const { level, time, msg, ...rest } = JSON.parse(line) as Record<string, unknown>
  const name = pino.levels.labels[Number(level)] ?? String(level)
  const values = Object.entries(rest).map(([key, value]) => `  ${key}=${shown(value)}`)
  const { err } = rest
  const stack = Number(level) >= stackFrom && isError(err) && err.stack ? `\n${err.stack}` : ''
  return `${timeOf(time)} ${name.padEnd(5)} ${msg ?? ''}${values.join('')}${stack}\n`
}

/** Lines for people in place of JSON: one line of JSON comes in at a time. */
export const prettyLines = (destination: DestinationStream): DestinationStream => ({
  write: (line) => destination.write(prettyLine(line)),
})
