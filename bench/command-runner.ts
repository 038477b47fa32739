import { move, pay, purse, runnerOver } from '../test/commands/purse.ts'
import { createMemoryLog } from '../test/support/memory-log.ts'

/**
 * What the command runner itself costs: commands a second over a log in memory, 256 at a time.
 * `node bench/command-runner.ts [commands]`; with `--cpu-prof` it says where the time goes.
 */
const commands = Number(process.argv[2] ?? 100_000)
const clients = 256

const measure = async (kind: 'one append' | 'two appends', streams: number): Promise<void> => {
  const runner = runnerOver(createMemoryLog())
  for (let n = 0; n < streams; n++) await runner.run(move(purse(`${n}`), 'start', 1_000_000_000))
  let next = 0
  const work = async (): Promise<void> => {
    while (next < commands) {
      const id = `${next++}`
      const stream = purse(`${next % streams}`)
      if (kind === 'one append') await runner.run(move(stream, id, 1))
      else await runner.run(pay(stream, id, 1))
    }
  }
  const startedMs = performance.now()
  await Promise.all(Array.from({ length: clients }, work))
  const seconds = (performance.now() - startedMs) / 1_000
  process.stdout.write(`${kind}, ${streams} streams: ${Math.round(commands / seconds)} commands/s\n`)
  await runner.close()
}

await measure('one append', 1)
await measure('one append', 1_000)
await measure('two appends', 1)
await measure('two appends', 1_000)
