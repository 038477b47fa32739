import { randomBytes } from 'node:crypto'
import type { Logger } from 'pino'
import type { Clock, MonotonicClock } from '../../kernel/clock.ts'
import type { CloseStack } from '../../kernel/resource-scope.ts'
import { onDemand } from '../../platform/http/json-schema.ts'
import { createResolve } from '../../platform/outgoing/target.ts'
import { StartRefused } from '../../platform/postgres/errors.ts'
import type { Keys } from '../../platform/vault/keys.ts'
import type { CandidateRules } from './endpoint-candidates.ts'
import { judgeKeys } from './judge.ts'
import { type JudgeAccess, openJudge } from './judge-access.ts'
import { type Check, CheckUnavailable } from './probe-port.ts'
import { createProber, oneOffCheck, type Prober } from './prober.ts'
import { type CheckingConfig, isSandboxed } from './settings.ts'

export type Checking = {
  readonly judge: JudgeAccess
  readonly prober: Prober
  /** Rules for dialling. The observed addresses of this service are added to them. */
  readonly rules: CandidateRules
}

type Parts = {
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
  { config, keys, clock, monotonicMs, logger }: Parts,
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
export const openOneOffChecks = (parts: Parts, closing: CloseStack): OneOffChecks => {
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
