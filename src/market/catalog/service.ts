import type { CommandRunner } from '../../platform/eventstore/commands/command.ts'
import { handle, type Result, readState } from '../../platform/eventstore/commands/handle.ts'
import { decided, refused } from '../../platform/eventstore/decision.ts'
import type { Cause } from '../../platform/eventstore/event.ts'
import { type Catalog, createCatalog } from './catalog.ts'
import { decideImport, decideState, type Imported } from './decide.ts'
import { type CatalogFile, parseCatalog } from './file.ts'
import { catalogRef } from './fold.ts'
import type { Problem } from './problem.ts'
import type { Product, ProductState } from './product.ts'

/** Which of these products were ever ordered. */
export type Ordered = (productIds: readonly string[]) => Promise<ReadonlySet<string>>

/** Refused with every problem that was found; nothing is written then. */
export type CatalogResult<Made> = Result<readonly Problem[], Made>

export type CatalogService = {
  /**
   * Checks the text of a catalogue file as a whole and makes it the catalogue. A state that was changed since is set as
   * the file says. `ordered` is asked of the products that the file leaves out; without it none may go.
   */
  import(text: string, cause: Cause, ordered?: Ordered): Promise<CatalogResult<Imported>>
  /** Answers what an import would, and writes nothing. `current`: this is the catalogue already. */
  check(
    text: string,
    cause: Cause,
    ordered?: Ordered,
  ): Promise<CatalogResult<Imported & { readonly current: boolean }>>
  /** The catalogue as the log has it now, whatever the read models have folded. */
  read(cause: Cause): Promise<Catalog>
  /** Changes one product's state. `productId` and `successorId` are ids, not old ids. */
  setState(
    change: { readonly productId: string; readonly state: ProductState; readonly successorId: string | null },
    cause: Cause,
  ): Promise<CatalogResult<{ readonly product: Product }>>
}

/** The catalogue's writes: events on the `catalog` stream, decided by the command runner. */
export const createCatalogService = (runner: CommandRunner): CatalogService => {
  const stateNow = (cause: Cause) => readState(runner, { ...cause, name: 'read-catalog' }, catalogRef)

  /** The products that a file leaves out and that nobody ever ordered. */
  const neverOrdered = async (file: CatalogFile, cause: Cause, ordered?: Ordered) => {
    const named = new Set(file.products.map(({ id }) => id))
    const { products } = await stateNow(cause)
    const left = products.map(({ id }) => id).filter((id) => !named.has(id))
    if (left.length === 0 || ordered === undefined) return new Set<string>()
    const found = await ordered(left)
    return new Set(left.filter((id) => !found.has(id)))
  }
  return {
    import: async (text, cause, ordered) => {
      const parsed = parseCatalog(text)
      if (!parsed.ok) return refused(parsed.problems)
      const never = await neverOrdered(parsed.file, cause, ordered)
      return handle(runner, { ...cause, name: 'import-catalog' }, catalogRef, (state, { nowMs }) =>
        decideImport(state, parsed.file, nowMs, never),
      )
    },
    check: async (text, cause, ordered) => {
      const parsed = parseCatalog(text)
      if (!parsed.ok) return refused(parsed.problems)
      const never = await neverOrdered(parsed.file, cause, ordered)
      return handle(runner, { ...cause, name: 'check-catalog' }, catalogRef, (state, { nowMs }) => {
        const decision = decideImport(state, parsed.file, nowMs, never)
        if (decision.outcome === 'refused') return decision
        const { events, digest, products } = decision
        return { ...decided(), digest, products, current: events.length === 0 }
      })
    },
    read: async (cause) => createCatalog(await stateNow(cause)),
    setState: (change, cause) =>
      handle(runner, { ...cause, name: 'set-product-state' }, catalogRef, (state, { nowMs }) =>
        decideState(state, change, nowMs),
      ),
  }
}
