import type pg from 'pg'
import type { Logger } from 'pino'
import { decideBlock } from '../domain/accounts/decide.ts'
import { accountRef } from '../domain/accounts/fold.ts'
import { violationFold } from '../domain/seals/events.ts'
import type { EventMetadata } from '../kernel/event.ts'
import { type AccountId, newId } from '../kernel/ids.ts'
import { parseUntrustedObject } from '../kernel/json-text.ts'
import { accountStream, violationStream } from '../kernel/streams.ts'
import type { CommandRunner } from '../platform/commands/command.ts'
import type { EventLog } from '../platform/eventstore/port.ts'
import type { Progress } from '../platform/projections/progress.ts'
import type { RunningWorker, Scheduler } from '../platform/work/scheduler.ts'
import { worker } from '../platform/work/worker.ts'
import { type CheckedEvents, type Found, keyOf, type Range } from './checked-events.ts'
import { readGuardProblem } from './checks/database-guards-check.ts'
import { invariantGroup } from './invariants/invariants.ts'
import {
  eachViolation,
  type OpenViolations,
  openViolationsText,
  readOpenViolations,
  UnresolvedViolation,
  type Violation,
  violationText,
} from './violations.ts'

const waitMs = 1_000
/** The number of waits for the check of the invariants before an alarm is due. */
const maxWaitAttempts = 60

/**
 * The open violations of the tables, and those whose rows were deleted: the record of the auditor has them.
 * @param through the position up to which the tables have the violations
 */
export const readAllOpenViolations = async (
  {
    pool,
    log,
    checked,
  }: Pick<InvariantCheckDependencies, 'pool' | 'log'> & {
    readonly checked: Pick<CheckedEvents, 'open'>
  },
  through: number,
): Promise<Pick<OpenViolations, 'count' | 'first'>> => {
  const stored = await readOpenViolations(pool)
  let { first } = stored
  let recorded = 0
  for await (const violation of checked.open(log, ({ position }) => position <= through)) {
    recorded += 1
    first ??= violation
  }
  return { count: Math.max(stored.count, recorded), first }
}

type InvariantCheckDependencies = {
  readonly pool: pg.Pool
  readonly log: Pick<EventLog, 'readStream' | 'eventAt'>
  readonly checked: Pick<CheckedEvents, 'open' | 'covers'>
  readonly progress: Pick<Progress, 'reached'>
  readonly isLogInPostgres: boolean
}

/** The next step when events of a range are not known to be checked; null when all are. */
export const readUncheckedProblem = async (
  checked: Pick<CheckedEvents, 'covers'>,
  range: Range,
): Promise<string | null> =>
  (await checked.covers(range))
    ? null
    : `no process of this service is known to have checked all events after position ${range.after} up to ${range.through} against the invariants: engine.checkpoints or work.checked_events was changed; "farebox projections rebuild laws" checks all events again`

/**
 * Resolves when every event up to a position is checked against the invariants, none violates one, and the database has
 * no change that could hide a violation.
 * @throws UnresolvedViolation
 * @throws Error when the check does not reach the position in time
 */
export const requireInvariantsHold = async (
  dependencies: InvariantCheckDependencies,
  { sealed, position }: { readonly sealed: number; readonly position: number },
  signal: AbortSignal,
): Promise<void> => {
  const { pool, progress, checked, isLogInPostgres } = dependencies
  for (let attempt = 0; !(await progress.reached(invariantGroup.name, position, waitMs)); attempt += 1) {
    signal.throwIfAborted()
    if (attempt === maxWaitAttempts)
      throw new Error(
        `the invariants are not checked up to position ${position}: see what stops the projection "${invariantGroup.name}"`,
      )
  }
  const problem = openViolationsText(await readAllOpenViolations(dependencies, position))
  if (problem !== null) throw new UnresolvedViolation(problem)
  // Only in Postgres the ordinal of the last sealed event equals its position.
  const uncheckedProblem = isLogInPostgres
    ? await readUncheckedProblem(checked, { after: sealed, through: position })
    : null
  if (uncheckedProblem !== null) throw new UnresolvedViolation(uncheckedProblem)
  const guardProblem = await readGuardProblem(pool)
  if (guardProblem !== null) throw new UnresolvedViolation(guardProblem)
}

const monitorActor = { kind: 'system', name: 'law-guard' } as const

const isByMonitor = (metadata: string): boolean => {
  const actor = parseUntrustedObject<EventMetadata>(metadata)?.actor
  return actor?.kind === monitorActor.kind && 'name' in actor && actor.name === monitorActor.name
}

/**
 * Whether an operator unblocked the account after this violation although the monitor had blocked it. The operator then
 * knew the violation, and the account stays unblocked until the next one.
 */
const isUnblockedSince = async (
  log: Pick<EventLog, 'readStream'>,
  accountId: AccountId,
  { position }: Violation,
): Promise<boolean> => {
  let wasBlocked = false
  for await (const event of log.readStream(accountStream(accountId))) {
    if (event.type === 'AccountBlocked') wasBlocked ||= isByMonitor(event.metadata)
    if (event.type === 'AccountUnblocked' && wasBlocked && event.position > position) return true
  }
  return false
}

/**
 * Blocks the account, unless an operator has acknowledged the violation meanwhile.
 * @returns whether the account is blocked
 */
const blockAccount = async (
  runner: CommandRunner,
  accountId: AccountId,
  { eventId, rule }: Violation,
): Promise<boolean> => {
  const { answer } = await runner.run({
    name: 'block-for-breach',
    account: accountId,
    streams: {
      account: accountRef(accountId),
      violation: { stream: violationStream(eventId), fold: violationFold },
    },
    decide: ({ account, violation }) => {
      if (violation.includes(rule)) return { appends: [], answer: false }
      const reason = `an event of it breaks the law ${rule}: ${eventId}`
      const decision = decideBlock(account, { reason })
      const events = decision.outcome === 'decided' ? decision.events : []
      return {
        appends: events.length === 0 ? [] : [{ stream: accountStream(accountId), events }],
        answer: decision.outcome === 'decided',
      }
    },
    actor: monitorActor,
    correlationId: newId('run'),
  })
  return answer
}

export const invariantMonitor = worker({
  name: 'law-guard',
  about: 'Reports events that break an invariant, and blocks their accounts if a setting says so',
  trigger: { everyMs: 1_000, quietMs: 20_000 },
  per: 'process',
  process: 'auditor',
})

/**
 * Logs each violation once. With `blocks` it also blocks the account of each violation once. If an operator unblocks
 * the account, it stays unblocked, even if the violation was not acknowledged.
 */
export const startViolationMonitor = (dependencies: {
  readonly scheduler: Scheduler
  readonly pool: pg.Pool
  readonly log: Pick<EventLog, 'readStream' | 'eventAt'>
  readonly runner: CommandRunner
  readonly checked: Pick<CheckedEvents, 'open' | 'found'>
  readonly progress: Pick<Progress, 'reached' | 'position'>
  readonly logger: Logger
  readonly blocks: boolean
  readonly intervalMs?: number
}): Pick<RunningWorker, 'stop'> => {
  const { scheduler, pool, log, runner, checked, progress, logger, blocks } = dependencies
  /** The number of open violations that are missing in the tables. */
  let hiddenCount = 0
  /** The state in which all violations were processed. */
  let processedState = ''
  let loggedKeys: ReadonlySet<string> = new Set()
  let enforcedKeys: ReadonlySet<string> = new Set()

  /**
   * Processes every open violation. Rejects with the first failure after all were tried.
   * @returns false when a found violation is not in the tables yet
   */
  const processAll = async (): Promise<boolean> => {
    const [newLoggedKeys, newEnforcedKeys] = [new Set<string>(), new Set<string>()]
    const blockedAccounts = new Set<AccountId>()
    const failures: unknown[] = []
    const through = progress.position(invariantGroup.name)
    const processOne = async (violation: Violation): Promise<void> => {
      const { eventId, rule, accountId } = violation
      const key = keyOf(violation)
      if (!loggedKeys.has(key)) logger.fatal({ eventId, rule, accountId }, violationText(violation))
      newLoggedKeys.add(key)
      if (!blocks || accountId === null) return
      try {
        const isDone = enforcedKeys.has(key) || blockedAccounts.has(accountId)
        if (!isDone && !(await isUnblockedSince(log, accountId, violation)))
          if (await blockAccount(runner, accountId, violation)) blockedAccounts.add(accountId)
        newEnforcedKeys.add(key)
      } catch (error) {
        failures.push(error)
      }
    }
    for await (const violation of eachViolation(pool, { open: true })) await processOne(violation)
    let currentHiddenCount = 0
    let isComplete = true
    const isHidden = (candidate: Found): boolean => {
      isComplete &&= candidate.position <= through
      return candidate.position <= through && !newLoggedKeys.has(keyOf(candidate))
    }
    for await (const violation of checked.open(log, isHidden)) {
      currentHiddenCount += 1
      await processOne(violation)
    }
    hiddenCount = currentHiddenCount
    loggedKeys = newLoggedKeys
    enforcedKeys = newEnforcedKeys
    if (failures.length > 0) throw failures[0]
    return isComplete
  }

  const check = async (): Promise<void> => {
    // There is nothing to check before the tables exist.
    if (!(await progress.reached(invariantGroup.name, 0, 0))) return
    const { digest } = await readOpenViolations(pool)
    const currentState = `${digest} ${checked.found()}`
    if (currentState === processedState && hiddenCount === 0) return
    processedState = (await processAll()) ? currentState : ''
  }
  return scheduler.start(invariantMonitor, check, { everyMs: dependencies.intervalMs })
}
