import {
  decideStatement,
  decideStatementCorrection,
  type StatementAnswer,
  type StatementBooking,
  type StatementCorrection,
  type StatementLineCorrected,
  statementFold,
  streamOfLine,
} from '../../domain/ledger/statement-lines.ts'
import type { Cause } from '../../kernel/event.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import { handle } from '../../platform/commands/command.ts'

/** Books a fee or a payout of a provider, exactly once per gateway and id. */
export const bookStatementLine = async (
  runner: CommandRunner,
  line: StatementBooking,
  cause: Cause,
): Promise<StatementAnswer['became']> => {
  const stream = { stream: streamOfLine(line), fold: statementFold }
  const { became } = await handle(runner, { ...cause, name: 'book-statement-line' }, stream, (state) =>
    decideStatement(state, line),
  )
  return became
}

/** Books the difference of a booked line to its right amounts. Null: it has them already. */
export const correctStatementLine = async (
  runner: CommandRunner,
  line: Pick<StatementBooking, 'gateway' | 'reference'>,
  correction: StatementCorrection,
  cause: Cause,
): Promise<StatementLineCorrected['data'] | null> => {
  const stream = { stream: streamOfLine(line), fold: statementFold }
  const { change } = await handle(runner, { ...cause, name: 'correct-statement-line' }, stream, (booked) => {
    if (booked === null) throw new Error(`line ${line.reference} of ${line.gateway} is not booked`)
    const decision = decideStatementCorrection(booked, correction)
    return { ...decision, change: decision.events[0]?.data ?? null }
  })
  return change
}
