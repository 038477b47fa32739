import type { GatewayLogger } from './gateway-logger.ts'
import type { ProxyMetrics } from './metrics.ts'

/** Told of an exception that nothing expects: a fault of our own. Whoever tells it ends the one connection that it is in. */
export type OnFault = (error: unknown) => void

const maxFrames = 8

/**
 * What the log says of a fault. A message may quote what a client sent, a password too, so only those that the language itself
 * writes are told: of a type or a name that is wrong, without a code of Node's.
 */
const reasonOf = (error: unknown): object => {
  if (!(error instanceof Error)) return { fault: typeof error }
  const { code } = error as NodeJS.ErrnoException
  const ofLanguage = code === undefined && (error instanceof TypeError || error instanceof ReferenceError)
  const frames = (error.stack ?? '').split('\n').filter((line) => /^\s+at /.test(line))
  return {
    fault: error.name,
    ...(code !== undefined && { code: String(code) }),
    ...(ofLanguage && { reason: error.message.slice(0, 200) }),
    at: frames.slice(0, maxFrames).map((line) => line.trim()),
  }
}

/** Counts each fault and logs it as an error: it is a mistake in the gateway, whatever a client sent. */
export const createOnFault =
  ({ logger, metrics }: { readonly logger: GatewayLogger; readonly metrics: ProxyMetrics }): OnFault =>
  (error) => {
    metrics.faulted()
    logger.error(reasonOf(error), 'a fault of the gateway ended one connection')
  }

/** What a socket is destroyed with, so that its other end is broken off too. */
export const asError = (error: unknown): Error =>
  error instanceof Error ? error : new Error('a fault of the gateway')
