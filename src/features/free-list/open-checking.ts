import { randomBytes } from 'node:crypto'
import type { Logger } from 'pino'
import type { Clock, MonotonicClock } from '../../kernel/clock.ts'
import type { CloseStack } from '../../kernel/resource-scope.ts'
import { onDemand } from '../../platform/http/json-schema.ts'
import { createResolve } from '../../platform/outgoing/target.ts'
import { StartRefused } from '../../platform/postgres/errors.ts'
import type { Keys } from '../../platform/vault/keys.ts'
import { createDeadlines } from '../../platform/work/deadlines.ts'
import { type ActiveJudge, failedCheckResult, probeAllProtocols } from './ask-judge.ts'
import type { CandidateRules } from './endpoint-store.ts'
import { type JudgeKeys, judgeKeys, makeNonce } from './judge.ts'
import { type JudgeAccess, openJudge } from './judge-access.ts'
import { type Check, CheckUnavailable, createSockets, ProbeFailure } from './probe-port.ts'
import { type CheckingConfig, isSandboxed } from './settings.ts'

export type Checking = {
  readonly judge: JudgeAccess
  readonly prober: Prober
  /** Rules for dialling. The observed addresses of this service are added to them. */
  readonly rules: CandidateRules
}

type Dependencies = {
  readonly config: CheckingConfig
  readonly keys: Keys
  readonly clock: Clock
  readonly monotonicMs: MonotonicClock
  readonly logger: Logger
}

const draw = (): string => randomBytes(12).toString('base64url')

/**
 * Opens the dependencies of proxy checks. Null without a judge: none is configured, and no sandbox runs.
 * @param serves whether this process serves a configured judge
 */
export const openChecking = async (
  { config, keys, clock, monotonicMs, logger }: Dependencies,
  closing: CloseStack,
  { serves }: { readonly serves: boolean },
): Promise<Checking | null> => {
  const sandbox = isSandboxed(config)
  const { judge: configured } = config.freelist
  if (configured === null && !sandbox) return null
  const secrets = judgeKeys(keys.master)
  const judge = await openJudge({
    address: configured?.address ?? null,
    listen: serves ? (configured?.listen ?? null) : null,
    keys: secrets,
    resolve: createResolve(),
    draw,
    clock,
    monotonicMs,
    logger,
  }).catch((error: NodeJS.ErrnoException) => {
    if (error.syscall !== 'listen') throw error
    throw new StartRefused(
      `the judge cannot listen (${error.message}): FAREBOX_FREELIST_JUDGE_LISTEN and FAREBOX_FREELIST_JUDGE_LISTEN_PORTS say where it does`,
      { cause: error },
    )
  })
  closing.add(judge.close)
  const prober = createProber({ judge: judge.active, keys: secrets, clock, monotonicMs, draw })
  closing.add(prober.stop)
  return {
    judge,
    prober,
    rules: {
      sandbox,
      get own() {
        const activeJudge = judge.active()
        return activeJudge === null
          ? new Set<string>()
          : new Set([...activeJudge.ownAddresses, activeJudge.place.ip])
      },
    },
  }
}

export type OneOffChecks = {
  readonly check: Check
  /** Rules for dialling, available once the addresses of this service are known. */
  readonly rules: () => Promise<CandidateRules>
}

/**
 * Checks on request over HTTP. The dependencies are opened with the first check, because most processes make none.
 * Rejects with CheckUnavailable if no judge is configured and no sandbox runs.
 */
export const openOneOffChecks = (parts: Dependencies, closing: CloseStack): OneOffChecks => {
  const open = onDemand(() => openChecking(parts, closing, { serves: false }))
  return {
    check: async (endpoint, options, signal) => {
      const checking = await open()
      if (checking === null)
        throw new CheckUnavailable('no judge is configured: FAREBOX_FREELIST_JUDGE_HOST names one')
      return oneOffCheck(checking.prober.check, checking.judge)(endpoint, options, signal)
    },
    rules: async () => {
      const checking = await open()
      if (checking === null) return { sandbox: false, own: new Set<string>() }
      // The answer contains the address of this service.
      if (checking.judge.active() === null) await checking.judge.answers()
      return checking.rules
    },
  }
}

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
