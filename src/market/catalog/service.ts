import type { CommandOutcome, CommandRunner } from '../../platform/eventstore/commands/command.ts'
import type { Cause } from '../../platform/eventstore/event.ts'
import { catalogStream } from '../../terms/streams.ts'
import { type Catalog, createCatalog } from './catalog.ts'
import {
  type CatalogDecision,
  decideImport,
  decideState,
  type ImportAnswer,
  type SetStateAnswer,
} from './decide.ts'
import { type CatalogFile, parseCatalog } from './file.ts'
import { type CatalogState, catalogFold } from './fold.ts'
import type { ProductState } from './product.ts'

/** Which of these products were ever ordered. */
export type Ordered = (productIds: readonly string[]) => Promise<ReadonlySet<string>>

export type CatalogService = {
  /**
   * Checks the text of a catalogue file as a whole and makes it the catalogue. Refused with every problem that was
   * found; nothing is written then. A state that was changed since is set as the file says. `ordered` is asked of the
   * products that the file leaves out; without it none may go.
   */
  import(text: string, cause: Cause, ordered?: Ordered): Promise<CommandOutcome<ImportAnswer>>
  /** Answers what an import would, and writes nothing. */
  check(text: string, cause: Cause, ordered?: Ordered): Promise<ImportAnswer>
  /** The catalogue as the log has it now, whatever the read models have folded. */
  read(cause: Cause): Promise<Catalog>
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
      correlationId: cause.correlationId,
      actor: cause.actor,
      streams: { catalog: { stream: catalogStream, fold: catalogFold } },
      decide: ({ catalog }, { nowMs }) => {
        const { events, answer } = decide(catalog, nowMs)
        return { appends: events.length > 0 ? [{ stream: catalogStream, events }] : [], answer }
      },
    })
  const look = async <Answer>(
    name: string,
    cause: Cause,
    see: (state: CatalogState, nowMs: number) => Answer,
  ): Promise<Answer> => {
    const { answer } = await run(name, cause, (state, nowMs) => ({ events: [], answer: see(state, nowMs) }))
    return answer
  }
  /** The products that a file leaves out and that nobody ever ordered. */
  const neverOrdered = async (file: CatalogFile, cause: Cause, ordered?: Ordered) => {
    const kept = new Set(file.products.map(({ id }) => id))
    const { products } = await look('read-catalog', cause, (state) => state)
    const left = products.map(({ id }) => id).filter((id) => !kept.has(id))
    if (left.length === 0 || ordered === undefined) return new Set<string>()
    const found = await ordered(left)
    return new Set(left.filter((id) => !found.has(id)))
  }
  return {
    import: async (text, cause, ordered) => {
      const parsed = parseCatalog(text)
      if (!parsed.ok) return { answer: { status: 'refused', problems: parsed.problems }, position: null }
      const never = await neverOrdered(parsed.file, cause, ordered)
      return run('import-catalog', cause, (state, nowMs) => decideImport(state, parsed.file, nowMs, never))
    },
    check: async (text, cause, ordered) => {
      const parsed = parseCatalog(text)
      if (!parsed.ok) return { status: 'refused', problems: parsed.problems }
      const never = await neverOrdered(parsed.file, cause, ordered)
      return look(
        'check-catalog',
        cause,
        (state, nowMs) => decideImport(state, parsed.file, nowMs, never).answer,
      )
    },
    read: (cause) => look('read-catalog', cause, createCatalog),
    setState: (change, cause) =>
      run('set-product-state', cause, (state, nowMs) => decideState(state, change, nowMs)),
  }
}
