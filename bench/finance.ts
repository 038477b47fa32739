import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Bench, figure } from './bench.ts'
import { withLog } from './database.ts'
import { benchJournal } from './finance/journal.ts'
import type { ReplayFigures } from './finance/replay-process.ts'
import { appendHistory } from './history.ts'
import { readAlone } from './read-alone.ts'

const mebibytes = (bytes: number): string => `${Math.round(bytes / 2 ** 20)} MiB`

const runReplay = async (url: string): Promise<ReplayFigures> => {
  const program = join(import.meta.dirname, 'finance/replay-process.ts')
  const { stdout } = await promisify(execFile)(process.execPath, [program, url])
  return JSON.parse(stdout)
}

/** The longer history may need a fifth more memory at most. */
const maxPeakRatio = 1.2

/** Replay in events a second and its peak of memory over histories of different lengths, and what the journal costs an order. */
export const finance: Bench = {
  name: 'finance',
  what: 'replay beside reading the log alone, its memory at two lengths; what the journal costs an order',
  run: async ({ url, print, bar, sizes }) => {
    const results: ReplayFigures[] = []
    for (const events of [Math.round(sizes.events / 10), sizes.events])
      await withLog(url, async (place) => {
        await appendHistory(place.log, events, bar)
        const readMs = await readAlone(place.log)
        const figures = await runReplay(place.url)
        results.push(figures)
        const { ms, cpuMs, peakBytes, entries, accounts } = figures
        print(
          `replay: ${figure(figures.events)} events (${figure(entries)} entries, ${figure(accounts)} accounts) in ${figure(ms / 1000, 1)} s, ${figure((figures.events * 1000) / ms)} events a second, ${figure(ms / readMs, 2)} times as long as reading alone; processor time ${figure((cpuMs * 1000) / figures.events, 1)} µs an event, peak memory ${mebibytes(peakBytes)}`,
        )
        await benchJournal(place, print)
      })
    const [shorter, longer] = results
    if (shorter && longer)
      print(
        `replay: peak memory at ${figure(longer.events)} events is ${figure(longer.peakBytes / shorter.peakBytes, 2)} times that at ${figure(shorter.events)} (at most ${maxPeakRatio})`,
      )
  },
}
