import { setTimeout as sleep } from 'node:timers/promises'
import type { StreamName } from '../../kernel/streams.ts'
import { LogUnavailable } from '../eventstore/errors.ts'
import type { EventLog, StoredEvent } from '../eventstore/port.ts'
import { CommandOverload, type CommandRunner } from './command.ts'

/** The log did not answer within the time limit of the startup. The message says what to check. */
export class LogUnreachable extends LogUnavailable {
  override readonly name = 'LogUnreachable'
}

const pauseMs = 250
const reportIntervalMs = 5_000

type LogWaitOptions = {
  /** Time limit of the retries, milliseconds. An attempt in progress at the limit is completed. */
  readonly withinMs: number
  /** The address of the log for the error message; without secrets. */
  readonly where: string
  /** Called at the first failure, and every five seconds during the retries. */
  readonly onWait?: (reason: string, waitedMs: number) => void
}

/** Retries reads and commands during startup, so that its callers need no retries of their own. */
export type LogWait = {
  /** The same log with retried reads. Its reads throw `LogUnreachable` after the time limit. */
  log(log: EventLog): EventLog
  /** The same runner with retried commands. Only for idempotent commands. */
  runner<Runner extends CommandRunner>(runner: Runner): Runner
  /** Ends the retries: from now on the errors of the log are thrown at once. */
  end(): void
}

const reads = ['logId', 'head', 'lastOf', 'readAll', 'readBefore', 'eventAt', 'readStreams'] as const

/**
 * Creates the retries of a startup. At any read of a startup the log may still be starting, or its cluster may be
 * electing a leader: the health check of a log is green some seconds before the log answers. So each read is retried.
 * The time limit of a read starts at its first failure.
 */
export const createLogWait = ({ withinMs, where, onWait }: LogWaitOptions): LogWait => {
  let isStopped = false
  let reportedAtMs = Number.NEGATIVE_INFINITY

  const reportWait = (reason: string, nowMs: number, waitedMs: number): void => {
    if (nowMs - reportedAtMs < reportIntervalMs) return
    reportedAtMs = nowMs
    onWait?.(reason, Math.round(waitedMs))
  }

  const retryOnOutage = async <Value>(attempt: () => Promise<Value>): Promise<Value> => {
    let firstFailureMs: number | null = null
    for (;;) {
      try {
        return await attempt()
      } catch (error) {
        if (isStopped || !(error instanceof LogUnavailable || error instanceof CommandOverload)) throw error
        const nowMs = performance.now()
        firstFailureMs ??= nowMs
        if (nowMs + pauseMs >= firstFailureMs + withinMs)
          throw new LogUnreachable(
            `the log at ${where} gave no answer within ${Math.round(withinMs / 1000)} s (${error.message}). Is EventStoreDB running, has its cluster a leader, and is EVENTSTORE_URL right?`,
            { cause: error },
          )
        reportWait(error.message, nowMs, nowMs - firstFailureMs)
        await sleep(pauseMs)
      }
    }
  }

  async function* events(log: EventLog, stream: StreamName, from = 0) {
    let next = from
    let eventIterator: AsyncIterator<StoredEvent> | null = null
    const step = async () => {
      eventIterator ??= log.readStream(stream, next)[Symbol.asyncIterator]()
      try {
        return await eventIterator.next()
      } catch (error) {
        // An iterator that threw is finished. A new one continues at the next revision.
        eventIterator = null
        throw error
      }
    }
    for (;;) {
      const { done, value } = await retryOnOutage(step)
      if (done) return
      next = value.revision + 1
      yield value
    }
  }

  return {
    log: (log) => ({
      ...log,
      ...Object.fromEntries(
        reads.map((name) => {
          const read = log[name] as (...args: unknown[]) => Promise<unknown>
          return [name, (...args: unknown[]) => retryOnOutage(() => read(...args))]
        }),
      ),
      readStream: (stream, from) => events(log, stream, from),
    }),
    runner: (runner) => ({ ...runner, run: (command) => retryOnOutage(() => runner.run(command)) }),
    end: () => {
      isStopped = true
    },
  }
}
