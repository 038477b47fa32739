import type { DestinationStream } from 'pino'
import pino from 'pino'

const isError = (value: unknown): value is { readonly message?: string; readonly stack?: string } =>
  typeof value === 'object' && value !== null && 'stack' in value

const shown = (value: unknown): string => {
  if (isError(value)) return shown(String(value.message))
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return /^[^\s"=]+$/.test(text) ? text : JSON.stringify(value)
}

/** From here on the log tells of bugs and outages, whose stack helps. */
const stackFrom = pino.levels.values.error!

/** Of a line's time, the part that people at a terminal look at. */
const timeOf = (time: unknown): string => String(time).slice(11, 19)

/** One line of the log as people read it: `12:03:04 warn  a connection broke  err="…"`. */
export const prettyLine = (line: string): string => {
  const { level, time, msg, ...rest } = JSON.parse(line) as Record<string, unknown>
  const name = pino.levels.labels[Number(level)] ?? String(level)
  const values = Object.entries(rest).map(([key, value]) => `  ${key}=${shown(value)}`)
  const { err } = rest
  const stack = Number(level) >= stackFrom && isError(err) ? `\n${err.stack}` : ''
  return `${timeOf(time)} ${name.padEnd(5)} ${msg ?? ''}${values.join('')}${stack}\n`
}

/** Lines for people in place of JSON: one line of JSON comes in at a time. */
export const prettyLines = (destination: DestinationStream): DestinationStream => ({
  write: (line) => destination.write(prettyLine(line)),
})
