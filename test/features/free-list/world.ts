import { randomBytes } from 'node:crypto'
import type { TestContext } from 'node:test'
import type pg from 'pg'
import { pino } from 'pino'
import { probeJudgeDirectly } from '../../../src/features/free-list/ask-judge.ts'
import {
  type Checker,
  type CheckerLimits,
  createChecker,
} from '../../../src/features/free-list/endpoint-checker.ts'
import { readEndpoints, readLiveMarks } from '../../../src/features/free-list/endpoint-reads.ts'
import { createRecordStore } from '../../../src/features/free-list/endpoint-store.ts'
import { judgeKeys, makeNonce, startJudge } from '../../../src/features/free-list/judge.ts'
import { createProber, type Prober } from '../../../src/features/free-list/open-checking.ts'
import type { JudgeTarget } from '../../../src/features/free-list/proxy-protocols.ts'
import { masterKey } from '../../../src/platform/vault/keys.ts'
import type { PlannedProxy } from '../../../src/sandbox/free-list/plan.ts'
import { startFreeProxies } from '../../../src/sandbox/free-list/run-proxies.ts'
import { atEnd } from '../../support/cleanup.ts'
import { machineMs } from '../../support/machine-time.ts'
import { memoryRecords } from '../../support/memory-records.ts'

export const keys = judgeKeys(masterKey(randomBytes(32)))
const draw = (): string => randomBytes(9).toString('base64url')

/** A judge on this machine and a prober that uses it. */
export const startProber = async (t: TestContext, clock: () => number = Date.now) => {
  const listen = { host: '127.0.0.1', httpPort: 0, tlsPort: 0 }
  const judge = await startJudge({ keys, listen, clock })
  const place = { host: '127.0.0.1', ip: '127.0.0.1', httpPort: judge.httpPort, tlsPort: judge.tlsPort }
  const inForce = { place, ownAddresses: new Set(['127.0.0.1']) }
  const prober = createProber({
    judge: () => inForce,
    keys,
    clock,
    monotonicMs: machineMs,
    draw,
  })
  atEnd(t, async () => {
    prober.stop()
    await judge.close()
  })
  return { prober, judge, place }
}

/** Proxies of the sandbox, with their truths. */
export const startWorld = async (
  t: TestContext,
  planned: readonly PlannedProxy[],
  clock: () => number = Date.now,
) => {
  const proxies = await startFreeProxies({ planned, records: memoryRecords(), clock })
  atEnd(t, proxies.close)
  return proxies.running
}

/** A checker whose pauses are the middle ones, on a given clock. */
export const startChecker = (
  t: TestContext,
  parts: {
    readonly pool: pg.Pool
    readonly prober: Prober
    readonly place: JudgeTarget
    readonly clock: () => number
    readonly limits?: Partial<CheckerLimits>
    readonly judgeAnswers?: () => Promise<boolean>
  },
): Checker => {
  const { pool, prober, place, clock } = parts
  const ask = async (): Promise<boolean> => {
    const nonce = makeNonce(keys.nonces, clock(), draw())
    return probeJudgeDirectly(place, keys, nonce, { timeoutMs: 5_000, monotonicMs: machineMs }).then(
      () => true,
      () => false,
    )
  }
  const checker = createChecker({
    store: createRecordStore(pool),
    check: prober.check,
    openSockets: prober.openSockets,
    judgeAnswers: parts.judgeAnswers ?? ask,
    mayBegin: () => true,
    limits: { sockets: 240, connectTimeoutMs: 4_000, timeoutMs: 5_000, ...parts.limits },
    clock,
    monotonicMs: machineMs,
    random: () => 0.5,
    logger: pino({ level: 'silent' }),
  })
  atEnd(t, checker.stop)
  return checker
}

/** All that answered their last check, as the list reads them. */
export const readLive = async (pool: pg.Pool, nowMs: number) =>
  readEndpoints(pool, await readLiveMarks(pool), nowMs)
