/** What tells that rows of some tables, which this process holds in memory, may have changed. */
export type Watch = {
  /**
   * A number that rises with each change that this process is told of; read it before the rows. Null while this process
   * has not seen the group's checkpoint for a second: then it may have missed any change.
   */
  version(): number | null
  /** Calls the listener with each change. Returns the way to unsubscribe. */
  onChange(listener: () => void): () => void
}

/** Told of changes to the tables of one group, it tells whoever watches them. */
export type Changes = {
  /** Rows of these tables were written, or of any. */
  changed(tables: Iterable<string> | 'any'): void
  /** Rises with each change of one of these tables. */
  version(tables: readonly string[]): number
  onChange(tables: readonly string[], listener: () => void): () => void
}

export const createChanges = (): Changes => {
  const versions = new Map<string, number>()
  const listeners = new Set<{ readonly tables: readonly string[]; readonly tell: () => void }>()
  let last = 0
  /** When all tables changed last. */
  let any = 0

  return {
    changed: (tables) => {
      last += 1
      const written = tables === 'any' ? null : new Set(tables)
      if (written === null) any = last
      else for (const table of written) versions.set(table, last)
      for (const listener of listeners)
        if (written === null || listener.tables.some((table) => written.has(table))) listener.tell()
    },
    version: (tables) => Math.max(any, ...tables.map((table) => versions.get(table) ?? 0)),
    onChange: (tables, tell) => {
      const listener = { tables, tell }
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
}
