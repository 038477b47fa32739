import {
  decideStatement,
  type StatementAnswer,
  type StatementBooking,
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
