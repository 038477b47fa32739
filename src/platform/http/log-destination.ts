import pino from 'pino'

/** What waits for a disk or a terminal that takes nothing; lines above it are dropped. */
const mostWaiting = 8 * 1024 * 1024

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
  const destination = pino.destination({ dest: 2, sync: false, maxLength: mostWaiting })
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
