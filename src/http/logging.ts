import type { DestinationStream, Logger } from 'pino'
import pino from 'pino'

/** Names under which secrets could stand in a log line, at the top or one object deep. */
const secretNames = [
  'authorization',
  'x-api-key',
  'apiKey',
  'key',
  'password',
  'secret',
  'token',
  'cookie',
  'email',
]

const redactPaths = secretNames.flatMap((name) => [`["${name}"]`, `*["${name}"]`, `*.*["${name}"]`])

export type LogLevel = 'fatal' | 'error' | 'warn' | 'info' | 'debug' | 'trace' | 'silent'

/**
 * The logger of a process: JSON lines with ISO 8601 times. Requests, headers and bodies are never handed to it; the
 * redaction is the net below that rule.
 */
export const createLogger = (level: LogLevel, destination?: DestinationStream): Logger => {
  const options = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    redact: { paths: redactPaths, censor: '[redacted]' },
  }
  return destination === undefined ? pino(options) : pino(options, destination)
}
