import {
  decideStatement,
  type StatementAnswer,
  type StatementBooking,
  statementFold,
  streamOfLine,
} from '../../money/ledger/statement-decide.ts'
import type { CommandRunner } from '../../platform/eventstore/commands/command.ts'
import { handle } from '../../platform/eventstore/commands/handle.ts'
import type { Cause } from '../../platform/eventstore/event.ts'

/** How many lines were booked now, were booked before, or stand in the books with other amounts and were left. */
export type Posted = { readonly booked: number; readonly standing: number; readonly other: number }

/** Lines that are decided at once: the runner writes what comes together in one append. */
const atOnce = 50

/** Books lines of statements, each once for ever. Interrupted at any point, it goes on when it is run again. */
export const postLines = async (
  runner: CommandRunner,
  lines: AsyncIterable<StatementBooking>,
  cause: Cause,
): Promise<Posted> => {
  const counts: Record<StatementAnswer['became'], number> = { booked: 0, standing: 0, other: 0 }
  const post = async (line: StatementBooking): Promise<void> => {
    const stream = { stream: streamOfLine(line), fold: statementFold }
    const { became } = await handle(runner, { ...cause, name: 'book-statement-line' }, stream, (state) =>
      decideStatement(state, line),
    )
    counts[became] += 1
  }
  let waiting: Promise<void>[] = []
  for await (const line of lines) {
    waiting.push(post(line))
    if (waiting.length < atOnce) continue
    await Promise.all(waiting)
    waiting = []
  }
  await Promise.all(waiting)
  return counts
}
