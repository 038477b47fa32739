import type pg from 'pg'
import type { Logger } from 'pino'
import { decideBlock } from '../domain/accounts/decide.ts'
import { accountRef } from '../domain/accounts/fold.ts'
import { violationFold } from '../domain/seals/events.ts'
import { type AccountId, newId } from '../kernel/ids.ts'
import { accountStream, violationStream } from '../kernel/streams.ts'
import type { CommandRunner } from '../platform/commands/command.ts'
import type { Progress } from '../platform/projections/progress.ts'
import type { RunningWorker, Scheduler } from '../platform/work/scheduler.ts'
import { worker } from '../platform/work/worker.ts'
import { invariantGroup } from './invariants/invariants.ts'
import type { SignatureProgress } from './signatures/signature-watch.ts'
import { listViolations, type Violation, violationText } from './violations.ts'

/** An event breaks a law and nobody decided about it: the log is not sealed. The message says what to do. */
export class UnresolvedViolation extends Error {
  override readonly name = 'UnresolvedViolation'
}

const maxShown = 20
const waitMs = 1_000
/** After so long without the laws an alarm is due. */
const maxWaitAttempts = 60

const brokenText = (violations: readonly Violation[]): string | null => {
  const [first] = violations
  if (first === undefined) return null
  const more = violations.length === 1 ? '' : `, and ${violations.length - 1} more`
  return `${violationText(first)}${more}; "farebox ledger breaches" lists them, "farebox ledger decide" says why one stands`
}

const readOpen = (pool: pg.Pool): Promise<readonly Violation[]> =>
  listViolations(pool, { open: true, limit: maxShown })

/** What breaks a law and nobody decided about, for an alarm; null while every law holds. */
export const readViolationProblem = async (pool: pg.Pool): Promise<string | null> =>
  brokenText(await readOpen(pool))

/**
 * Resolves when every event up to a position was held against the laws and none breaks one.
 * @throws UnresolvedViolation; Error when the laws do not follow the log
 */
export const requireInvariantsHold = async (
  {
    pool,
    progress,
    signatures,
  }: {
    readonly pool: pg.Pool
    readonly progress: Pick<Progress, 'reached'>
    /** Null where nothing is signed. */
    readonly signatures: SignatureProgress | null
  },
  position: number,
  signal: AbortSignal,
): Promise<void> => {
  for (let waits = 0; !(await progress.reached(invariantGroup.name, position, waitMs)); waits += 1) {
    signal.throwIfAborted()
    if (waits === maxWaitAttempts)
      throw new Error(
        `the laws are not checked up to position ${position}: see what stops the projection "${invariantGroup.name}"`,
      )
  }
  await signatures?.reached(position, signal)
  const problem = await readViolationProblem(pool)
  if (problem !== null) throw new UnresolvedViolation(problem)
}

export type ViolationMonitor = Pick<RunningWorker, 'stop'> & {
  /** As of its last look, what `readViolationProblem` says. */
  problem(): string | null
}

/** Blocks the account, unless somebody has decided by now: a look that lags must not undo what an operator did since. */
const stopAccount = async (
  runner: CommandRunner,
  accountId: AccountId,
  { eventId, rule }: Violation,
): Promise<void> => {
  await runner.run({
    name: 'block-for-breach',
    account: accountId,
    streams: {
      account: accountRef(accountId),
      violation: { stream: violationStream(eventId), fold: violationFold },
    },
    decide: ({ account, violation }) => {
      const reason = `an event of it breaks the law ${rule}: ${eventId}`
      const decision = violation.includes(rule) ? null : decideBlock(account, { reason })
      const events = decision?.outcome === 'decided' ? decision.events : []
      return {
        appends: events.length === 0 ? [] : [{ stream: accountStream(accountId), events }],
        answer: null,
      }
    },
    actor: { kind: 'system', name: 'law-guard' },
    correlationId: newId('run'),
  })
}

export const lawGuard = worker({
  name: 'law-guard',
  about: 'Blocks accounts whose events break an invariant',
  trigger: { everyMs: 1_000 },
  per: 'process',
  process: 'server',
})

/** Stops what accounts do whose events break a law, until an operator decided about them and unblocks the account. */
export const startViolationMonitor = (deps: {
  readonly scheduler: Scheduler
  readonly pool: pg.Pool
  readonly runner: CommandRunner
  readonly progress: Pick<Progress, 'reached'>
  readonly logger: Logger
  readonly intervalMs?: number
}): ViolationMonitor => {
  const { scheduler, pool, runner, progress, logger } = deps
  let open: readonly Violation[] = []
  const told = new Set<string>()
  const look = async (): Promise<void> => {
    // Before the tables are made there is nothing to look at.
    if (!(await progress.reached(invariantGroup.name, 0, 0))) return
    open = await readOpen(pool)
    for (const violation of open) {
      const { eventId, rule, accountId } = violation
      const key = `${eventId} ${rule}`
      if (!told.has(key)) logger.fatal({ eventId, rule, accountId }, violationText(violation))
      told.add(key)
      if (accountId !== null) await stopAccount(runner, accountId, violation)
    }
  }
  const { stop } = scheduler.start(lawGuard, look, { everyMs: deps.intervalMs })
  return { problem: () => brokenText(open), stop }
}
