import type { CommandOutcome, CommandRunner } from '../eventstore/commands/command.ts'
import type { Actor } from '../eventstore/event.ts'
import { catalogStream } from '../eventstore/streams.ts'
import {
  type CatalogDecision,
  decideImport,
  decideState,
  type ImportAnswer,
  type SetStateAnswer,
} from './decide.ts'
import { parseCatalog } from './file.ts'
import { type CatalogState, catalogFold } from './fold.ts'
import type { ProductState } from './product.ts'

/** Who changes the catalogue, and in which run of a command. */
export type Cause = { readonly correlationId: string; readonly actor: Actor }

export type CatalogService = {
  /**
   * Checks the text of a catalogue file as a whole and makes it the catalogue. Refused with every problem that was
   * found; nothing is written then. A state that was changed since is set as the file says.
   */
  import(text: string, cause: Cause): Promise<CommandOutcome<ImportAnswer>>
  /** Changes one product's state. `productId` and `successorId` are ids, not old ids. */
  setState(
    change: { readonly productId: string; readonly state: ProductState; readonly successorId: string | null },
    cause: Cause,
  ): Promise<CommandOutcome<SetStateAnswer>>
}

/** The catalogue's writes: events on the `catalog` stream, decided by the command runner. */
export const createCatalogService = (runner: CommandRunner): CatalogService => {
  const run = <Answer>(
    name: string,
    cause: Cause,
    decide: (state: CatalogState, nowMs: number) => CatalogDecision<Answer>,
  ) =>
    runner.run({
      name,
      ...cause,
      streams: { catalog: { stream: catalogStream, fold: catalogFold } },
      decide: ({ catalog }, { nowMs }) => {
        const { events, answer } = decide(catalog, nowMs)
        return { appends: events.length > 0 ? [{ stream: catalogStream, events }] : [], answer }
      },
    })
  return {
    import: async (text, cause) => {
      const parsed = parseCatalog(text)
      if (!parsed.ok) return { answer: { status: 'refused', problems: parsed.problems }, position: null }
      return run('import-catalog', cause, (state, nowMs) => decideImport(state, parsed.file, nowMs))
    },
    setState: (change, cause) =>
      run('set-product-state', cause, (state, nowMs) => decideState(state, change, nowMs)),
  }
}
