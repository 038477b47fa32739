import { setTimeout as sleep } from 'node:timers/promises'
import type { StreamName } from '../../kernel/streams.ts'
import { LogUnavailable } from '../eventstore/errors.ts'
import type { EventLog, StoredEvent } from '../eventstore/port.ts'
import { CommandOverload, type CommandRunner } from './command.ts'

/** The log did not answer in all the time that a start has for it. The message says what to look at. */
export class LogUnreachable extends LogUnavailable {
  override readonly name = 'LogUnreachable'
}

const pauseMs = 250
const tellEveryMs = 5_000

export type LogWaitOptions = {
  /** How long to try, milliseconds; an attempt that is under way then is waited for. */
  readonly withinMs: number
  /** Where the log is, for the message at the end; without secrets. */
  readonly where: string
  /** Called at the first wait, and every five seconds while anybody waits. */
  readonly onWait?: (reason: string, waitedMs: number) => void
}

/** Waits in place of everybody who starts, until the start is over. */
export type LogWait = {
  /** The same log, whose reads wait until it answers. @throws LogUnreachable when the time is over */
  log(log: EventLog): EventLog
  /** The same runner, whose commands come again until they are answered: for those that do nothing twice. */
  runner<Runner extends CommandRunner>(runner: Runner): Runner
  /** From now on the log's own errors pass. */
  end(): void
}

const reads = ['logId', 'head', 'lastOf', 'readAll', 'readBefore', 'eventAt', 'readStreams'] as const

/**
 * A log may be starting, or its cluster electing a leader, at any of the reads that a start makes; its health check is
 * green some seconds before it answers. So each of them is waited for, and the time is counted from the first failure.
 */
export const createLogWait = ({ withinMs, where, onWait }: LogWaitOptions): LogWait => {
  let over = false
  let toldAtMs = Number.NEGATIVE_INFINITY

  const tell = (reason: string, nowMs: number, waitedMs: number): void => {
    if (nowMs - toldAtMs < tellEveryMs) return
    toldAtMs = nowMs
    onWait?.(reason, Math.round(waitedMs))
  }

  const patiently = async <Value>(attempt: () => Promise<Value>): Promise<Value> => {
    let failedAtMs: number | null = null
    for (;;) {
      try {
        return await attempt()
      } catch (error) {
        if (over || !(error instanceof LogUnavailable || error instanceof CommandOverload)) throw error
        const nowMs = performance.now()
        failedAtMs ??= nowMs
        if (nowMs + pauseMs >= failedAtMs + withinMs)
          throw new LogUnreachable(
            `the log at ${where} gave no answer within ${Math.round(withinMs / 1000)} s (${error.message}). Is EventStoreDB running, has its cluster a leader, and is EVENTSTORE_URL right?`,
            { cause: error },
          )
        tell(error.message, nowMs, nowMs - failedAtMs)
        await sleep(pauseMs)
      }
    }
  }

  async function* events(log: EventLog, stream: StreamName, from = 0) {
    let next = from
    let reading: AsyncIterator<StoredEvent> | null = null
    const step = async () => {
      reading ??= log.readStream(stream, next)[Symbol.asyncIterator]()
      try {
        return await reading.next()
      } catch (error) {
        // An iterator that threw is at its end: another one goes on from where it broke.
        reading = null
        throw error
      }
    }
    for (;;) {
      const { done, value } = await patiently(step)
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
          return [name, (...args: unknown[]) => patiently(() => read(...args))]
        }),
      ),
      readStream: (stream, from) => events(log, stream, from),
    }),
    runner: (runner) => ({ ...runner, run: (command) => patiently(() => runner.run(command)) }),
    end: () => {
      over = true
    },
  }
}
