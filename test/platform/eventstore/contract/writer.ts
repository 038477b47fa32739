import { type ChildProcess, fork } from 'node:child_process'
import type { TestContext } from 'node:test'
import type { StreamName } from '../../../../src/kernel/streams.ts'
import type { LogUnderTest } from './under-test.ts'

export type WriterTask = {
  readonly streams: readonly StreamName[]
  /** How many events each stream gets, one an append, all streams at once. */
  readonly perStream: number
}

/**
 * Runs a separate process that opens the store and writes the task, repeating unknown and unavailable appends
 * until they land. Resolves when it ended well.
 */
export const startWriter = (
  t: TestContext,
  elsewhere: LogUnderTest['elsewhere'],
  task: WriterTask,
): Promise<void> =>
  new Promise((resolve, reject) => {
    const child: ChildProcess = fork(new URL('./writer-process.ts', import.meta.url), [
      JSON.stringify({ ...elsewhere, ...task }),
    ])
    t.after(() => child.kill())
    child.once('error', reject)
    child.once('exit', (code) =>
      code === 0 ? resolve() : reject(new Error(`a writer process ended with ${code}`)),
    )
  })
