import { fork } from 'node:child_process'
import { once } from 'node:events'

export type Get = { readonly name: string; readonly key: string; readonly path: string }

/**
 * Requests at even distances, whether the ones before are answered or not, as people send them who know nothing of each
 * other. How long one took is counted from when it was due, so what waits behind a slow one is seen to wait.
 */
export type OpenLoop = {
  readonly origin: string
  /** Sent in turn, over and over. */
  readonly gets: readonly Get[]
  readonly perSecond: number
  readonly connections: number
  readonly warmUpMs: number
  readonly measureMs: number
}

export type OpenLoopResult = {
  /** By the name of the GET, in the order of their answers. */
  readonly latenciesMs: Readonly<Record<string, readonly number[]>>
  readonly statuses: Readonly<Record<string, number>>
  /** False: so many requests waited for their answer at once that the run was ended early. */
  readonly keptUp: boolean
}

/** Runs the loop in a process of its own. */
export const runOpenLoop = async (job: OpenLoop): Promise<OpenLoopResult> => {
  const child = fork(new URL('./open-loop-process.ts', import.meta.url), { stdio: 'inherit' })
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`the generator of requests ended with ${code}`)
  })
  ended.catch(() => undefined) // it also ends after its answer
  child.send(job)
  const [result] = (await Promise.race([once(child, 'message'), ended])) as [OpenLoopResult]
  return result
}
