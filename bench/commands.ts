import { newEventId } from '../src/kernel/ids.ts'
import { move, pay, purse, runnerOver } from '../test/platform/commands/purse.ts'
import { createMemoryLog } from '../test/support/memory-log.ts'
import { type Bench, figure } from './bench.ts'

const clients = 256

/** Does the work of each number from 0, some at once; what it makes a second. */
const perSecond = async (count: number, one: (n: number) => Promise<unknown>): Promise<number> => {
  let next = 0
  const work = async (): Promise<void> => {
    while (next < count) await one(next++)
  }
  const startedMs = performance.now()
  await Promise.all(Array.from({ length: clients }, work))
  return (count * 1_000) / (performance.now() - startedMs)
}

/** The log in memory without the runner: what no runner over it can pass. */
const bare = async (count: number, streams: number): Promise<number> => {
  const log = createMemoryLog()
  const revisions = new Map<number, number>()
  const data = JSON.stringify({ amountMicros: 1 })
  return perSecond(count, async (n) => {
    const last = revisions.get(n % streams)
    revisions.set(n % streams, (last ?? -1) + 1)
    const event = { id: newEventId(), type: 'PurseMoved', data, metadata: '{}' }
    await log.append(purse(`${n % streams}`), last ?? 'noStream', [event])
  })
}

/** The cost of the command runner itself; `--cpu-prof` of node shows where the time goes. */
export const commands: Bench = {
  name: 'commands',
  what: 'commands a second of the command runner over a log in memory, compared with that log alone',
  run: async ({ print, sizes }) => {
    for (const streams of [1, 1_000]) {
      const limit = await bare(sizes.commands, streams)
      print(`the log in memory alone, ${streams} streams: ${figure(limit)} appends/s`)
      for (const kind of ['one append', 'two appends'] as const) {
        const runner = runnerOver(createMemoryLog())
        for (let n = 0; n < streams; n++) await runner.run(move(purse(`${n}`), 'start', 1_000_000_000))
        const ours = await perSecond(sizes.commands, (n) => {
          const stream = purse(`${n % streams}`)
          return runner.run(kind === 'one append' ? move(stream, `${n}`, 1) : pay(stream, `${n}`, 1))
        })
        await runner.close()
        const share = figure(ours / limit, 2)
        print(`${kind} a command, ${streams} streams: ${figure(ours)} commands/s, ${share} of the log alone`)
      }
    }
  },
}
