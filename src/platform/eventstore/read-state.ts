import { decode } from './codec.ts'
import type { StreamRef } from './commands/command.ts'
import type { EventLog } from './port.ts'

/** What a short stream comes to, as the log has it now, and the position of its last event; null for an absent stream. */
export const readStreamState = async <State>(
  log: Pick<EventLog, 'readStream'>,
  { stream, fold }: StreamRef<State>,
): Promise<{ readonly state: State; readonly position: number | null }> => {
  let state: State = fold.initial
  let position: number | null = null
  for await (const stored of log.readStream(stream)) {
    const { type, data, revision, metadata } = decode(stored)
    state = fold.evolve(state, { type, data, revision, recordedAtMs: Date.parse(metadata.recordedAt) })
    position = stored.position
  }
  return { state, position }
}
