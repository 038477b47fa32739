import { createMoments, momentWork } from '../features/finance/index.ts'
import type { Clock } from '../kernel/clock.ts'
import { pluralize } from '../kernel/formats.ts'
import type { CliContext } from '../platform/cli/cli-context.ts'
import type { InputOf } from '../platform/cli/input.ts'
import { CliMisuse, type CliOutput, CliRefusal, notFound, table } from '../platform/cli/output.ts'
import { withProgress } from '../platform/cli/progress-bar.ts'
import type { EventLog, StoredEvent } from '../platform/eventstore/port.ts'
import { catchUp } from '../platform/projections/bring-up.ts'
import { type CheckedEvents, createCheckedEvents } from './checked-events.ts'
import { readGuardProblem } from './checks/database-guards-check.ts'
import { createTimeCheck, timeRule } from './checks/sequence-check.ts'
import type { decideInput } from './commands.ts'
import { readUncheckedProblem } from './invariant-monitor.ts'
import { invariantGroup } from './invariants/invariants.ts'
import { readSeals } from './seals/sealing.ts'
import { sealKeyOf } from './seals/seals-file.ts'
import { checkSignatures } from './signatures/signature-watch.ts'
import {
  acknowledgeViolation,
  eachViolation,
  isAcknowledged,
  listViolations,
  readOpenViolations,
  signatureRule,
  type Violation,
  violationText,
} from './violations.ts'

const maxListed = 1_000

const openCheckedEvents = ({ auditorPool, log, keys }: CliContext): CheckedEvents =>
  createCheckedEvents({ pool: auditorPool, log, master: keys.master })

/** Checks invariants and signatures up to the current end of the log. Returns that position. */
const checkWholeLog = (context: CliContext, checked: CheckedEvents): Promise<number> =>
  withProgress(async (bar) => {
    const { codec, auditorPool: pool } = context
    const head = await catchUp(
      { ...context, pool, decode: codec.decode, watch: checked },
      { group: invariantGroup, displayName: 'laws' },
      bar,
    )
    if (context.config.eventStoreUrl === null)
      await checkSignatures({
        ...context,
        pool,
        publicKey: sealKeyOf(context.keys.seal).publicKey,
        // In Postgres the ordinal is the position of the event.
        from: (await readSeals(context.runner, context)).last?.throughOrdinal ?? 0,
        onFound: ({ position }) => checked.foundUnsigned([{ position, rule: signatureRule }]),
      })
    return head
  })

const openRefusal = async (
  { pool, log }: CliContext,
  checked: CheckedEvents,
  message: string,
  listedViolations: readonly Violation[],
  through: number,
): Promise<CliRefusal | null> => {
  const { count } = await readOpenViolations(pool)
  if (count === 0) {
    for await (const hiddenViolation of checked.open(log, ({ position }) => position <= through))
      return new CliRefusal('law_broken', `${message}\n${violationTable([hiddenViolation])}`, {
        open: 1,
        breaches: [hiddenViolation],
      })
    return null
  }
  return new CliRefusal('law_broken', `${message}\n${violationTable(listedViolations)}`, {
    open: count,
    breaches: listedViolations,
  })
}

/**
 * Checks the whole log against the invariants, and the database for changes that could hide a violation.
 * @param sealed the ordinal that the last seal covers
 * @throws CliRefusal `law_broken` when a violation is not acknowledged; `not_checked`; `guards_differ`
 */
export const refuseUnresolvedViolations = async (context: CliContext, sealed: number): Promise<void> => {
  const checked = openCheckedEvents(context)
  const through = await checkWholeLog(context, checked)
  const refusal = await openRefusal(
    context,
    checked,
    'the log is not sealed: an event violates an invariant; "ledger decide" acknowledges it',
    await listViolations(context.pool, { open: true, limit: maxListed }),
    through,
  )
  if (refusal !== null) throw refusal
  if (context.config.eventStoreUrl === null) {
    const uncheckedProblem = await readUncheckedProblem(checked, { after: sealed, through })
    if (uncheckedProblem !== null)
      throw new CliRefusal('not_checked', `the log is not sealed: ${uncheckedProblem}`)
  }
  const guardProblem = await readGuardProblem(context.pool)
  if (guardProblem !== null) throw new CliRefusal('guards_differ', `the log is not sealed: ${guardProblem}`)
}

const violationTable = (violations: readonly Violation[]): string =>
  table(
    violations,
    {
      event: 'eventId',
      type: 'eventType',
      account: 'accountId',
      law: 'rule',
      problem: 'problem',
      decided: ({ decision }) => decision?.reason,
    },
    'no event violates an invariant',
  )

/** Lists the events that violate an invariant. @throws CliRefusal `law_broken` while one is open */
export const violationReport = async (
  context: CliContext,
  { open = false }: { readonly open?: boolean },
): Promise<CliOutput> => {
  const checked = openCheckedEvents(context)
  const through = await checkWholeLog(context, checked)
  const violations = await listViolations(context.pool, { open, limit: maxListed })
  const refusal = await openRefusal(context, checked, 'an event violates an invariant', violations, through)
  if (refusal !== null) throw refusal
  return { json: { breaches: violations }, text: violationTable(violations) }
}

type DecideInput = InputOf<typeof decideInput>

/** The violations that the arguments select. @throws CliMisuse when they select none unambiguously */
const selectViolations = async function* (
  context: CliContext,
  checked: CheckedEvents,
  { eventId, all = false, since }: DecideInput,
): AsyncGenerator<Pick<Violation, 'eventId' | 'eventType' | 'rule' | 'problem'>> {
  const { pool, log } = context
  if (eventId !== undefined) {
    if (all || since !== undefined) throw new CliMisuse('name an event, or use --all with --since, not both')
    for await (const violation of eachViolation(pool, { open: false }))
      if (violation.eventId === eventId) yield violation
    for await (const violation of eachRecordedEarly(context, { after: 0 }))
      if (violation.eventId === eventId) yield violation
    for await (const violation of checked.open(log)) if (violation.eventId === eventId) yield violation
    return
  }
  if (!all || since === undefined) throw new CliMisuse('name an event, or use --all with --since')
  // Selects by position in the log, because an event's own time may be forged.
  const beforePosition = await createMoments(context).before(since, await log.head())
  yield* eachViolation(pool, { open: true, from: beforePosition + 1 })
  for await (const violation of eachRecordedEarly(context, { after: beforePosition }))
    if (!(await isAcknowledged(log, violation))) yield violation
  // Last, because the violations of the tables are acknowledged by then.
  for await (const violation of checked.open(log)) if (violation.position > beforePosition) yield violation
}

const maxShown = 20

const acknowledgedText = (
  acknowledged: readonly Pick<Violation, 'eventId' | 'eventType' | 'rule' | 'problem'>[],
  all: boolean,
): string => {
  const [first] = acknowledged
  if (first === undefined) return 'no open violations since then'
  if (!all)
    return `${first.eventId} is acknowledged against ${acknowledged.map(({ rule }) => rule).join(', ')}`
  const lines = acknowledged.slice(0, maxShown).map(violationText)
  const more = acknowledged.length > maxShown ? [`and ${acknowledged.length - maxShown} more`] : []
  return [`${pluralize(acknowledged.length, 'violation')} acknowledged:`, ...lines, ...more].join('\n')
}

/** Acknowledges violations. @throws CliMisuse when the arguments name none */
export const decide = momentWork(async (context: CliContext, input: DecideInput): Promise<CliOutput> => {
  const { eventId, all = false, reason } = input
  const checked = openCheckedEvents(context)
  await checkWholeLog(context, checked)
  const acknowledged: Pick<Violation, 'eventId' | 'eventType' | 'rule' | 'problem'>[] = []
  for await (const violation of selectViolations(context, checked, input)) {
    await acknowledgeViolation(context.runner, violation, reason, context)
    acknowledged.push(violation)
  }
  if (eventId !== undefined && acknowledged.length === 0)
    throw notFound(`event ${eventId} violates no invariant; "ledger breaches" lists the violations`)
  const text = acknowledgedText(acknowledged, all)
  if (eventId === undefined)
    return {
      json: {
        count: acknowledged.length,
        violations: acknowledged.map(({ eventId, rule }) => ({ eventId, rule })),
        reason,
      },
      text,
    }
  return { json: { eventId, rules: acknowledged.map(({ rule }) => rule), reason }, text }
})

const pageSize = 5_000

/**
 * Events whose time of recording was in the future, in the order of the log. Reads the whole log: only verifications
 * and operators' commands call it.
 */
export const eachRecordedEarly = async function* (
  { log, clock }: { readonly log: Pick<EventLog, 'readAll' | 'readStream'>; readonly clock: Clock },
  { after }: { readonly after: number },
): AsyncGenerator<Violation> {
  const check = createTimeCheck(log, clock)
  let ordinal = 1
  for (let page: readonly StoredEvent[] = []; ; ) {
    page = await log.readAll(page.at(-1)?.position ?? 0, pageSize)
    const times = await check(page, ordinal)
    ordinal += page.length
    for (const [index, { id, type, stream, position }] of page.entries()) {
      const problem = times[index]!.problem
      if (problem !== null && position > after)
        yield {
          position,
          eventId: id,
          eventType: type,
          stream,
          accountId: null,
          rule: timeRule,
          problem,
          decision: null,
        }
    }
    if (page.length < pageSize) return
  }
}
