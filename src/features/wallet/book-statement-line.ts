import { approvalLimitsRef, type ProposedStatement, proposalRef } from '../../domain/ledger/approvals.ts'
import {
  type ApprovalAnswer,
  type ApprovalRefusal,
  decideApproval,
  decideWithApproval,
  proposalIdOf,
} from '../../domain/ledger/decide-approval.ts'
import {
  decideStatement,
  decideStatementCorrection,
  type StatementAnswer,
  type StatementBooking,
  type StatementCorrection,
  type StatementLineCorrected,
  type StatementState,
  statementFold,
  streamOfLine,
} from '../../domain/ledger/statement-lines.ts'
import type { Appends, CommandDecision, Refused } from '../../kernel/decider.ts'
import type { Cause } from '../../kernel/event.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import { handle } from '../../platform/commands/command.ts'

type LineName = Pick<StatementBooking, 'gateway' | 'reference'>

const lineRef = (line: LineName) => ({ stream: streamOfLine(line), fold: statementFold })

/** Books a fee or a payout of a provider, exactly once per gateway and id. */
export const bookStatementLine = async (
  runner: CommandRunner,
  line: StatementBooking,
  cause: Cause,
): Promise<StatementAnswer['became']> => {
  const { became } = await handle(runner, { ...cause, name: 'book-statement-line' }, lineRef(line), (state) =>
    decideStatement(state, line),
  )
  return became
}

/** Lines that are decided concurrently, so that the runner batches them into one append. */
const maxConcurrent = 50

/** Books lines, each exactly once, and returns how many were new. After an interruption, another run continues. */
export const bookStatementLines = async (
  runner: CommandRunner,
  lines: Iterable<StatementBooking> | AsyncIterable<StatementBooking>,
  cause: Cause,
): Promise<number> => {
  let booked = 0
  const book = async (line: StatementBooking): Promise<void> => {
    if ((await bookStatementLine(runner, line, cause)) === 'booked') booked += 1
  }
  let pending: Promise<void>[] = []
  for await (const line of lines) {
    pending.push(book(line))
    if (pending.length < maxConcurrent) continue
    await Promise.all(pending)
    pending = []
  }
  await Promise.all(pending)
  return booked
}

type Allowed = { readonly outcome: 'allowed' }
const nothing: CommandDecision<Allowed> = { appends: [], answer: { outcome: 'allowed' } }

/** Proposes lines whose amounts are together above the approval limit. `allowed`: one operator may book them. */
export const proposeStatement = async (
  runner: CommandRunner,
  statement: ProposedStatement,
  cause: Cause,
): Promise<Allowed | ApprovalAnswer> => {
  const { answer } = await runner.run({
    name: 'propose-statement',
    streams: { fourEyes: approvalLimitsRef, proposal: proposalRef(proposalIdOf(statement)) },
    decide: (states, { nowMs }) =>
      decideWithApproval<Allowed>(states, { actor: cause.actor, nowMs }, nothing, () => statement),
    ...cause,
  })
  return answer
}

/** Approves lines and books exactly these. Another approval continues after an interruption. */
export const approveStatement = async (
  runner: CommandRunner,
  proposalId: string,
  statement: ProposedStatement,
  cause: Cause,
): Promise<{ readonly outcome: 'booked'; readonly lines: number } | Refused<ApprovalRefusal>> => {
  const { answer } = await runner.run({
    name: 'approve-statement',
    streams: { proposal: proposalRef(proposalId) },
    decide: ({ proposal }, { nowMs }) =>
      decideApproval<Allowed>(
        proposal,
        { actor: cause.actor, nowMs },
        () => nothing,
        () => statement,
      ),
    ...cause,
  })
  if (answer.outcome === 'refused') return answer
  const { gateway, lines } = statement
  const bookings = lines.map((line) => ({ gateway, ...line, proposalId }))
  return { outcome: 'booked', lines: await bookStatementLines(runner, bookings, cause) }
}

/** The change of a line; null: it has the right amounts already. */
export type CorrectionAnswer = {
  readonly outcome: 'corrected'
  readonly change: StatementLineCorrected['data'] | null
}

const correctionIn = (appends: Appends) => {
  const event = appends.flatMap(({ events }) => events)[0] as StatementLineCorrected | undefined
  if (event === undefined) return null
  const { proposalId: _, ...data } = event.data
  return { kind: 'statement_correction', ...data } as const
}

const correct = (line: StatementState, right: StatementCorrection): CommandDecision<CorrectionAnswer> => {
  if (line === null) throw new Error('only a booked line is corrected')
  const { events } = decideStatementCorrection(line, right)
  return {
    appends: events.length === 0 ? [] : [{ stream: streamOfLine(line), events }],
    answer: { outcome: 'corrected', change: events[0]?.data ?? null },
  }
}

/** Books the difference of a booked line to its right amounts. Above the approval limit it is proposed. */
export const correctStatementLine = async (
  runner: CommandRunner,
  { gateway, reference }: LineName,
  right: Omit<StatementCorrection, 'proposalId'>,
  cause: Cause,
): Promise<CorrectionAnswer | ApprovalAnswer> => {
  const proposalId = proposalIdOf({ kind: 'statement_correction', gateway, reference })
  const { answer } = await runner.run({
    name: 'correct-statement-line',
    streams: {
      line: lineRef({ gateway, reference }),
      fourEyes: approvalLimitsRef,
      proposal: proposalRef(proposalId),
    },
    decide: (states, { nowMs }) =>
      decideWithApproval<CorrectionAnswer>(
        states,
        { actor: cause.actor, nowMs },
        correct(states.line, { ...right, proposalId: null }),
        correctionIn,
      ),
    ...cause,
  })
  return answer
}

export const approveCorrection = async (
  runner: CommandRunner,
  proposalId: string,
  what: LineName & Pick<StatementLineCorrected['data'], 'feeAfterMicros' | 'payoutAfterMicros' | 'reason'>,
  cause: Cause,
): Promise<CorrectionAnswer | Refused<ApprovalRefusal>> => {
  const { feeAfterMicros: feeMicros, payoutAfterMicros: payoutMicros, reason } = what
  const { answer } = await runner.run({
    name: 'approve-statement-correction',
    streams: { line: lineRef(what), proposal: proposalRef(proposalId) },
    decide: ({ line, proposal }, { nowMs }) =>
      decideApproval<CorrectionAnswer>(
        proposal,
        { actor: cause.actor, nowMs },
        () => correct(line, { feeMicros, payoutMicros, reason, proposalId }),
        correctionIn,
      ),
    ...cause,
  })
  return answer
}
