import { createHash } from 'node:crypto'
import type { ReadModel, ReadModelGroup, Table } from './read-model.ts'

/** What filled a model's tables: kept beside the checkpoint, so that changed code is noticed. */
export type Definition = {
  readonly version: number
  /** Digest of version and tables: finds a table that was changed without a new version. */
  readonly digest: string
}

export type Definitions = Readonly<Record<string, Definition>>

/** Raise it when the engine makes its tables in another way: all of them are then made anew. */
const layout = 1

const tableShape = ({ name, columns, key, indexes, rewritten }: Table): unknown => [
  name,
  Object.entries(columns),
  key,
  indexes,
  ...(rewritten ? ['rewritten'] : []),
]

export const definitionOf = (model: ReadModel): Definition => ({
  version: model.version,
  digest: createHash('sha256')
    .update(JSON.stringify([layout, model.version, model.tables.map(tableShape)]))
    .digest('hex')
    .slice(0, 16),
})

export const definitionsOf = (models: readonly ReadModel[]): Definitions =>
  Object.fromEntries(models.map((model) => [model.name, definitionOf(model)]))

export type Standing = {
  /** Their tables were filled by an older version, or under another definition, or never. */
  readonly outdated: readonly ReadModel[]
  /**
   * Names of the models that a newer program filled, those that this program does not know included. Moving the group's
   * checkpoint without folding them would leave them behind for ever.
   */
  readonly newer: readonly string[]
}

/**
 * How the tables that stand relate to the models of this program. A model that is taken out of a group leaves by a
 * migration, which drops its tables and its name in `engine.checkpoints.definitions`: else it counts as newer.
 */
export const compareDefinitions = (group: ReadModelGroup, stored: Definitions): Standing => {
  const { models, work } = group
  const known = new Map([...models, ...(work ? [work] : [])].map(({ name, version }) => [name, version]))
  const newer = Object.entries(stored)
    .filter(([name, { version }]) => version > (known.get(name) ?? 0))
    .map(([name]) => name)
  const outdated = models.filter(
    (model) => !newer.includes(model.name) && stored[model.name]?.digest !== definitionOf(model).digest,
  )
  return { outdated, newer }
}
