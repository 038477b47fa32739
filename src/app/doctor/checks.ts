import { setTimeout as sleep } from 'node:timers/promises'
import { followers } from '../../../projections/groups.ts'
import { type CheckedEvents, createCheckedEvents } from '../../audit/checked-events.ts'
import { readGuardProblem, readUnsafeSettings } from '../../audit/checks/database-guards-check.ts'
import { assertKeepsFiles, lagText, readDeliveryLag } from '../../audit/external-seals/deliver-seals.ts'
import { readAllOpenViolations, readUncheckedProblem } from '../../audit/invariant-monitor.ts'
import { invariantGroup } from '../../audit/invariants/invariants.ts'
import { lateMs, unsealedWait, waitAfter } from '../../audit/overdue-checks.ts'
import { sealer } from '../../audit/seals/sealer.ts'
import { readSeals } from '../../audit/seals/sealing.ts'
import { sealIsSigned, sealKeyOf } from '../../audit/seals/seals-file.ts'
import { readSignaturesChecked } from '../../audit/signatures/signature-watch.ts'
import { listVerifications } from '../../audit/verification-runs.ts'
import { violationText } from '../../audit/violations.ts'
import { readFutureTime } from '../../features/finance/index.ts'
import { pluralize } from '../../kernel/formats.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import { StoreFailed } from '../../platform/outgoing/object-store.ts'
import { openStore } from '../../platform/outgoing/open-object-store.ts'
import { readAuditorRole } from '../../platform/postgres/migrate.ts'
import {
  readCheckpoint,
  readStoppedModels,
  stoppedRemedy,
  stoppedText,
} from '../../platform/projections/checkpoint.ts'
import { countTooLate, deadText, delayText } from '../../platform/work/queue-operations.ts'
import { readWorkerProblem, readWorkerRuns } from '../../platform/work/worker-runs.ts'
import { skewProblem } from '../clock.ts'
import type { Config } from '../config.ts'
import { queues, readDelays } from '../queues.ts'
import { allWorkers } from '../worker-list.ts'
import { type Finding, guarded, note, type Outcome, ok, wrong } from './finding.ts'

/** A command's context, with all settings. */
type DoctorContext = CliContext & { readonly config: Config }

/** Compares the clock of this machine, without a development offset, with Postgres's. */
const checkClock = async ({ clockGuard }: DoctorContext): Promise<Outcome> => {
  await clockGuard.check()
  const aheadMs = clockGuard.aheadMs()
  const problem = skewProblem(aheadMs)
  return problem === null
    ? ok(`within ${Math.abs(aheadMs)} ms of Postgres's`)
    : wrong(problem, 'synchronize the clocks of both machines, e.g. by NTP')
}

/** Finds events that were recorded while the clocks of server and Postgres were ahead. */
const checkTime = async ({ db, clock }: DoctorContext): Promise<Outcome> => {
  const found = await readFutureTime(db, clock())
  return found === null
    ? ok('no event is in the future')
    : note(found, 'keep the clocks synchronized (docs/operations/troubleshooting.md)')
}

const checkHead = async ({ log, codec }: DoctorContext): Promise<Outcome> => {
  const head = await log.head()
  const last = head === 0 ? null : await log.eventAt(head)
  if (last === null) return note('it is empty')
  return ok(`its head is position ${head}, of ${codec.decode(last).metadata.recordedAt}`)
}

/** How long a running server may take to catch up, milliseconds: far more than it needs. */
const maxWaitMs = 5_000

/** Checks that a group of read models has folded the whole log. A running server gets `maxWaitMs` to catch up. */
const checkGroup = async (
  { pool, log }: DoctorContext,
  group: string,
  serverRuns: boolean,
): Promise<Outcome> => {
  const head = await log.head()
  const endMs = performance.now() + (serverRuns ? maxWaitMs : 0)
  for (;;) {
    const checkpoint = await readCheckpoint(pool, group)
    const position = checkpoint?.position ?? 0
    if (checkpoint !== null && position >= head) return ok('they have folded the whole log')
    if (performance.now() >= endMs) {
      const found = `they are at position ${position} of ${head}`
      return serverRuns
        ? wrong(found, 'read the log of the server: a group stops at an event that it cannot fold')
        : note(found, 'a server folds the rest when it starts')
    }
    await sleep(100)
  }
}

const checkReadModels = async (context: DoctorContext, serverRuns: boolean): Promise<readonly Finding[]> => {
  const stopped = (await readStoppedModels(context.pool)).map((each) => ({
    check: `read models (${each.group})`,
    ...wrong(stoppedText(each), stoppedRemedy),
  }))
  const groups = followers.map(async ({ name }) => ({
    check: `read models (${name})`,
    ...(await checkGroup(context, name, serverRuns)),
  }))
  return [...stopped, ...(await Promise.all(groups))]
}

const checkSeals = async (context: DoctorContext, serverRuns: boolean): Promise<Outcome> => {
  const { runner, keys, config } = context
  const { last, publicKey } = await readSeals(runner, context)
  if (publicKey !== null && publicKey !== sealKeyOf(keys.seal).publicKey)
    return wrong('another key signs this log', 'set FAREBOX_SEAL_KEY to the key that signed last')
  if (last !== null && !sealIsSigned(last))
    return wrong('the key of the last seal did not sign it', 'run "ledger verify" to see what was changed')
  const found = last === null ? 'none yet' : `event ${last.throughOrdinal}, at ${last.sealedAt}`
  const waitsMs = await unsealedWait(context)
  if (waitsMs === null) return ok(`${found}; no later events`)
  const waitText = `${found}; later events have waited for ${pluralize(Math.max(0, Math.round(waitsMs / 1000)), 'second')}`
  if (waitsMs <= config.seal.seconds * 1000 + lateMs) return ok(waitText)
  return serverRuns
    ? wrong(waitText, 'run "ledger verify": the auditor stops sealing a log that is not what was sealed')
    : note(waitText, 'a running auditor seals by itself; "ledger seal" does it now')
}

/** Checks that seals reach their target. Orders never wait for it. */
const checkSealTarget = async (context: DoctorContext, serverRuns: boolean): Promise<Outcome> => {
  const { location } = context.config.sealTarget
  if (location === null)
    return note('none is set: seals stay in the log', 'set FAREBOX_SEAL_TARGET: docs/finance/seals.md')
  const lag = await readDeliveryLag(context, location)
  const store = await openStore(
    location,
    context.config.sealTarget.access,
    () => context.clock() - context.config.clockOffsetMs,
  )
  try {
    await assertKeepsFiles(store, lag.target)
  } catch (error) {
    const problem =
      error instanceof StoreFailed ? `${lag.target}: ${error.message}` : (error as Error).message
    return wrong(problem, 'fix this; "ledger seals deliver" retries now, a running auditor retries by itself')
  } finally {
    await store.close()
  }
  if (lag.problem === null && lag.seals === 0) return ok(`${lag.target} has every seal`)
  const found = `${lag.target} is ${lagText(lag, context.clock())}`
  if (lag.problem !== null)
    return wrong(found, 'fix this; "ledger seals deliver" retries now, a running auditor retries by itself')
  const waitsMs = lag.since === null ? 0 : context.clock() - Date.parse(lag.since)
  if (waitsMs <= lateMs) return ok(found)
  return serverRuns
    ? wrong(found, 'start the auditor with the same FAREBOX_SEAL_TARGET')
    : note(found, 'a running auditor delivers them; "ledger seals deliver" does it now')
}

const checkedEventsOf = ({ pool, log, keys }: DoctorContext): CheckedEvents =>
  createCheckedEvents({ pool, log, master: keys.master })

/** Checks that an auditor runs and is not late. */
const checkAuditor = async (context: DoctorContext, serverRuns: boolean): Promise<Outcome> => {
  const { pool, log, clock, config } = context
  const running = (await readWorkerRuns(pool, clock())).get(sealer.name)?.processes ?? 0
  if (running === 0 && !serverRuns) return note('none runs', 'a server starts it')
  if (running === 0) return wrong('none runs', 'start one: "npm start audit", or "npm start" without roles')
  if (!config.checkInvariants) return ok('it seals the log; FAREBOX_LAWS is off')
  const position = (await readCheckpoint(pool, invariantGroup.name))?.position ?? 0
  const signed =
    config.eventStoreUrl === null ? await readSignaturesChecked(pool, await log.logId()) : position
  const found = `it checked the log up to position ${position}, its signatures up to ${signed}, of ${await log.head()}`
  const unchecked =
    config.eventStoreUrl === null
      ? await readUncheckedProblem(checkedEventsOf(context), { after: 0, through: position })
      : null
  if (unchecked !== null) return wrong(found, unchecked)
  const waitedMs = (await waitAfter(context, Math.min(position, signed))) ?? 0
  return waitedMs <= lateMs ? ok(found) : wrong(found, 'read its log lines: they say what stops it')
}

/** Whether the service's role can pass the guards of the database, or stop the auditor. */
export const checkRoles = async ({ pool }: Pick<DoctorContext, 'pool'>): Promise<Outcome> => {
  const { rows } = await pool.query<{ rolsuper: boolean }>(
    'select rolsuper from pg_roles where rolname = current_user',
  )
  if (rows[0]?.rolsuper)
    return note(
      "the service's role is a superuser: it can change the log, and it can read a stopped read model",
      'use three roles: docs/operations/security.md',
    )
  return (await readAuditorRole(pool)) === null
    ? note(
        "the auditor uses the service's role, which can end its sessions and write its tables",
        'set DATABASE_AUDITOR_URL: docs/operations/security.md',
      )
    : ok('the auditor has a role of its own')
}

/** Violations that the auditor found and that are not acknowledged. */
const checkViolations = async (context: DoctorContext): Promise<Outcome> => {
  const { pool, log, config } = context
  if (!config.checkInvariants) return note('FAREBOX_LAWS is off: only "ledger verify" finds them')
  const { rows } = await pool.query<{ made: boolean }>(
    `select to_regclass('read.violations') is not null and to_regclass('read.audit_decided') is not null as made`,
  )
  if (!rows[0]!.made) return note('not checked yet', 'the auditor checks when it starts')
  const checked = checkedEventsOf(context)
  const { count, first } = await readAllOpenViolations({ pool, log, checked }, Number.POSITIVE_INFINITY)
  return first === null
    ? ok('none is open')
    : wrong(
        `${count} open, the first: ${violationText(first)}`,
        '"ledger breaches" lists them, "ledger decide" acknowledges them',
      )
}

/** Finds changes of the database that could hide a violation. */
const checkDatabaseGuards = async ({ pool }: DoctorContext): Promise<Outcome> => {
  const problem = await readGuardProblem(pool)
  return problem === null
    ? ok('the database is as the migrations made it')
    : wrong(problem, 'find out who changed it, undo it, and run "ledger verify"')
}

/** Checks that acknowledged writes survive a crash of the machine. */
const checkDurability = async ({ pool }: DoctorContext): Promise<Outcome> => {
  const disabledSettings = await readUnsafeSettings(pool)
  return disabledSettings.length === 0
    ? ok('what is answered as written is on disk')
    : wrong(
        `${disabledSettings.join(' and ')} off: a crash of the machine loses or damages orders that were answered`,
        `set ${disabledSettings.map((name) => `${name} = on`).join(' and ')} in postgresql.conf, and reload it with "select pg_reload_conf()"`,
      )
}

/** Queues with overdue items. */
const checkQueues = async (
  { pool, clock }: DoctorContext,
  serverRuns: boolean,
): Promise<readonly Outcome[]> => {
  const delays = await readDelays(pool)
  const outcomes = delays
    .flatMap((delay) => delayText(delay) ?? [])
    .map((text) =>
      serverRuns
        ? wrong(text, 'read the log of the server: "farebox workers" has the last error of each worker')
        : note(text, 'a running server processes them'),
    )
  for (const queue of queues) {
    const items = await countTooLate(pool, queue, clock())
    if (items === 0) continue
    const text = `${queue.name}: ${pluralize(items, 'item')} with a due time that is too late, or an owner that has one, after a wrong clock or a change by hand`
    outcomes.push(wrong(text, 'a running server makes them due within a minute'))
  }
  for (const delay of delays) {
    const text = deadText(delay)
    if (text !== null)
      outcomes.push(note(text, `see "work dead --queue ${delay.queue}"; "work retry" tries them again`))
  }
  for (const { queue, failing } of delays)
    if (failing > 0)
      outcomes.push(
        note(`${queue}: ${pluralize(failing, 'item')} with three attempts or more, of which the last failed`),
      )
  return outcomes.length === 0 ? [ok('nothing is late, and no item failed')] : outcomes
}

/** Workers of running processes that run no more. */
const checkWorkers = async ({ pool, clock }: DoctorContext): Promise<Outcome> => {
  const problem = await readWorkerProblem(pool, allWorkers, clock())
  return problem === null
    ? ok('each has run within its interval')
    : wrong(problem, 'restart its process; if it stays so, find out which session of Postgres has its lock')
}

const dayMs = 86_400_000
const verifyAfterDays = 31

const checkVerification = async ({ pool, clock }: DoctorContext): Promise<Outcome> => {
  const last = (await listVerifications(pool, { limit: 1, offset: 0 })).verifications[0]
  if (last === undefined) return note('none was run', 'run "ledger verify"')
  const found = `${last.outcome}, started at ${last.startedAt}`
  if (last.outcome === 'differs')
    return wrong(found, 'run "ledger verify" again and see what differs: docs/finance/verify.md')
  if (last.outcome === 'failed') return wrong(found, 'run "ledger verify" again')
  return clock() - Date.parse(last.startedAt) > verifyAfterDays * dayMs
    ? note(found, 'it is long ago: run "ledger verify"')
    : ok(found)
}

type Check = (context: DoctorContext, serverRuns: boolean) => ReturnType<Parameters<typeof guarded>[1]>

/** The checks that need an open Farebox, in the order of the output. */
const checks: Readonly<Record<string, Check>> = {
  clock: checkClock,
  log: checkHead,
  'time of the log': checkTime,
  'read models': checkReadModels,
  auditor: checkAuditor,
  'database roles': checkRoles,
  'last seal': checkSeals,
  'seal target': checkSealTarget,
  violations: checkViolations,
  guards: checkDatabaseGuards,
  durability: checkDurability,
  queues: checkQueues,
  workers: checkWorkers,
  'last verification': checkVerification,
}

export const checkInside = async (
  context: DoctorContext,
  serverRuns: boolean,
): Promise<readonly Finding[]> => {
  const findings: Finding[] = []
  for (const [name, check] of Object.entries(checks))
    findings.push(...(await guarded(name, () => check(context, serverRuns))))
  return findings
}
