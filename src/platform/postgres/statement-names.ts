import type pg from 'pg'
import type { Prepared } from './in-one-trip.ts'

/** Texts beyond this many go unnamed: each name holds a plan in every session. */
const maxNames = 300

/**
 * Names statements by their text, so that Postgres parses and plans each once a session: most of what a small read
 * costs there.
 */
const createStatementNames = (): ((text: string) => Prepared) => {
  const names = new Map<string, string>()
  return (text) => {
    const known = names.get(text)
    if (known) return { name: known, text }
    if (names.size >= maxNames) return { name: '', text }
    const name = `farebox_${names.size}`
    names.set(text, name)
    return { name, text }
  }
}

const ofSessions = new WeakMap<object, ReturnType<typeof createStatementNames>>()

/** The names of a session: whoever works on it uses these, for a name stands for one text there as long as it lasts. */
export const statementNamesOf = (client: pg.ClientBase): ReturnType<typeof createStatementNames> => {
  const names = ofSessions.get(client) ?? createStatementNames()
  ofSessions.set(client, names)
  return names
}
