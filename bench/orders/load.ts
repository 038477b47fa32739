import { fork } from 'node:child_process'
import { once } from 'node:events'
import type { LoadJob, LoadResult } from './load-process.ts'

/** Runs a load in a process of its own, for a bounded time, or until `stopped` settles. */
export const runLoad = async (job: LoadJob, stopped?: Promise<unknown>): Promise<LoadResult> => {
  const child = fork(new URL('./load-process.ts', import.meta.url), { stdio: 'inherit' })
  child.send(job)
  void stopped?.finally(() => child.connected && child.send('stop'))
  const [result] = (await once(child, 'message')) as [LoadResult]
  return result
}
