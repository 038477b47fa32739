import type { DestinationStream, Logger, LoggerOptions } from 'pino'
import pino from 'pino'
import type { MonotonicClock } from '../../kernel/clock.ts'
import { createRepeats, type TroubleLine } from './log-repeats.ts'

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

/** Deeper objects are not looked into: rooms log ids and figures, not trees. */
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

const isTrouble = (line: unknown): line is TroubleLine => isPlain(line) && line.err instanceof Error

/** Lines about the same trouble are told once a minute, with how many were left out; what ends the process always. */
const onceAMinute = (monotonicMs: MonotonicClock): NonNullable<LoggerOptions['hooks']> => {
  const leftOutBefore = createRepeats(monotonicMs)
  return {
    logMethod(args, method, level) {
      const [line, ...rest] = args as unknown[]
      if (level >= pino.levels.values.fatal! || !isTrouble(line)) return method.apply(this, args)
      const leftOut = leftOutBefore(level, rest[0], { ...this.bindings(), ...line })
      if (leftOut === null) return
      method.apply(this, [leftOut === 0 ? line : { ...line, leftOut }, ...rest] as typeof args)
    },
  }
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
      formatters: { log: (line) => redacted(line, 1), bindings: (line) => redacted(line, 1) },
    },
    destination ?? pino.destination({ fd: 1, sync: false }),
  )
