import { groups } from '../../projections/groups.ts'
import type { CliContext } from '../platform/cli/cli-context.ts'
import { CliRefusal } from '../platform/cli/output.ts'
import { isWithoutRight, unreadableTable } from '../platform/postgres/errors.ts'
import { readStoppedModels, stoppedRemedy, stoppedText } from '../platform/projections/checkpoint.ts'

const modelByTable: ReadonlyMap<string, string> = new Map(
  groups.flatMap(({ models }) =>
    models.flatMap(({ name, tables }) => tables.map((table) => [table.name, name])),
  ),
)

/** The read model that fills a table; undefined: none does. */
export const modelOfTable = (table: string): string | undefined => modelByTable.get(table)

/**
 * The refusal of a command that reads a table of a stopped read model, or a table that no server has created yet. Other
 * errors are returned unchanged.
 */
export const explainUnreadable = async (
  error: unknown,
  { pool }: Pick<CliContext, 'pool'>,
): Promise<unknown> => {
  const table = unreadableTable(error)
  if (table === null) return error
  const stopped = (await readStoppedModels(pool)).find(({ model }) => model === modelOfTable(table))
  if (stopped) return new CliRefusal('overloaded', `${stoppedText(stopped)}; ${stoppedRemedy}`)
  if (isWithoutRight(error)) return error
  return new CliRefusal(
    'overloaded',
    'the read tables do not exist yet; start the server, which creates them, and run the command again',
  )
}
