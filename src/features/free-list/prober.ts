import type { Clock, MonotonicClock } from '../../kernel/clock.ts'
import { createDeadlines } from '../../platform/work/deadlines.ts'
import { type ActiveJudge, failedCheckResult, probeAllProtocols } from './ask-judge.ts'
import { type JudgeKeys, makeNonce } from './judge.ts'
import type { JudgeAccess } from './judge-access.ts'
import { type Check, CheckUnavailable, createSockets, ProbeFailure } from './probe-port.ts'

/**
 * Checks on request. The judge is requested directly before the first check, and again before a proxy that accepted a
 * connection is reported as not working. So an outage of the judge is reported as such.
 */
export const oneOffCheck =
  (check: Check, judge: Pick<JudgeAccess, 'active' | 'answers'>): Check =>
  async (endpoint, options, signal) => {
    if (judge.active() === null && !(await judge.answers()))
      throw new CheckUnavailable('the judge does not answer')
    const result = await check(endpoint, options, signal)
    if (!result.alive && result.connectMs !== null && !(await judge.answers()))
      throw new CheckUnavailable('the judge does not answer')
    return result
  }

export type Prober = {
  readonly check: Check
  /** Open sockets of all checks. */
  openSockets(): number
  stop(): void
}

/** Precision of time limits, milliseconds. */
const sweepMs = 50

/** After one protocol passed, the others have three times its duration, and at least this, milliseconds. */
const graceMs = 1_000

/**
 * Checks endpoints: first one connection, then one for each protocol at once. Thousands of checks run at a time. A dead
 * endpoint costs one socket.
 * @param parts.judge null while no judge is available: checks then reject with CheckUnavailable
 * @param parts.draw unpredictable base64url text, of 8 to 32 characters
 */
export const createProber = (parts: {
  readonly judge: () => ActiveJudge | null
  readonly keys: JudgeKeys
  readonly clock: Clock
  readonly monotonicMs: MonotonicClock
  readonly draw: () => string
}): Prober => {
  const { keys, clock, monotonicMs, draw } = parts
  const deadlines = createDeadlines(monotonicMs, sweepMs)
  let open = 0
  const count = (change: 1 | -1): void => {
    open += change
  }

  const check: Check = async (endpoint, options, signal) => {
    signal.throwIfAborted()
    const judge = parts.judge()
    if (judge === null) throw new CheckUnavailable('no judge answers')
    const { timeoutMs, connectTimeoutMs = timeoutMs } = options
    const startMs = monotonicMs()
    const sockets = createSockets(count)
    const watch = deadlines.watch()
    signal.addEventListener('abort', sockets.end)
    let isLate = false
    try {
      watch.within(Math.min(connectTimeoutMs, timeoutMs), sockets.end)
      const socket = await sockets.dial(endpoint)
      const connectMs = monotonicMs() - startMs
      const limitTotalTime = (): void =>
        watch.within(timeoutMs - (monotonicMs() - startMs), () => {
          isLate = true
          sockets.end()
        })
      limitTotalTime()
      const onPassed = (ms: number): void =>
        watch.within(Math.max(graceMs, 3 * ms), () => {
          sockets.closeAll()
          limitTotalTime()
        })
      const result = await probeAllProtocols({
        judge,
        keys,
        options,
        dial: () => sockets.dial(endpoint),
        nonce: () => makeNonce(keys.nonces, clock(), draw()),
        monotonicMs,
        onPassed,
        first: { socket, startMs, connectMs },
      })
      signal.throwIfAborted()
      return isLate && result.error === 'bad_response'
        ? { ...result, detail: 'it took the connection and did not answer as a proxy in time' }
        : result
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof ProbeFailure) return failedCheckResult(error, null)
      throw error
    } finally {
      watch.stop()
      signal.removeEventListener('abort', sockets.end)
      sockets.end()
    }
  }
  return { check, openSockets: () => open, stop: deadlines.stop }
}
