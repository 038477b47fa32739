import { fork } from 'node:child_process'
import { once } from 'node:events'
import type { Counted } from './stand-in-process.ts'

export type StandIn = {
  readonly url: URL
  count(): Promise<Counted>
  stop(): void
}

/** Starts the stand-in, on a free port of the loopback address. */
export const startStandIn = async (): Promise<StandIn> => {
  const child = fork(new URL('./stand-in-process.ts', import.meta.url), { stdio: 'inherit' })
  const nextMessage = async (): Promise<Counted> => ((await once(child, 'message')) as [Counted])[0]
  const { port } = await nextMessage()
  return {
    url: new URL(`http://127.0.0.1:${port}`),
    count: () => {
      const answer = nextMessage()
      child.send('count')
      return answer
    },
    stop: () => child.disconnect(),
  }
}
