import { mkdtemp, open, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { exportLedger } from '../src/features/exports/export-log.ts'
import { importLog } from '../src/features/exports/import-log.ts'
import { formats } from '../src/features/exports/journal-formats.ts'
import { utcCalendar } from '../src/kernel/calendar.ts'
import { createCodec } from '../src/platform/eventstore/codec.ts'
import { fileSink } from '../src/platform/outgoing/file-sink.ts'
import { type Bench, figure } from './bench.ts'
import { withLog } from './database.ts'
import { appendHistory } from './history.ts'
import { readAlone } from './read-alone.ts'

const rate = (events: number, ms: number): string =>
  `${(ms / 1000).toFixed(1)} s, ${figure((events * 1000) / ms)} events a second`

const sizeText = (bytes: number): string =>
  `${Math.round(bytes / 2 ** 20)} MiB, this process at ${Math.round(process.memoryUsage.rss() / 2 ** 20)} MiB`

/** How long each export takes, and the import of the one that is complete; a log of orders, four events each. */
export const exportsAndImport: Bench = {
  name: 'exports',
  what: 'each export compared with reading the log, the import with writing it, at two lengths',
  run: async ({ url, print, bar, sizes }) => {
    const directory = await mkdtemp(join(tmpdir(), 'farebox-bench-exports-'))
    try {
      for (const size of [Math.round(sizes.events / 10), sizes.events]) {
        const writtenMs = await withLog(url, async ({ log }) => {
          const ms = await appendHistory(log, size, bar)
          const readMs = await readAlone(log)
          print(`reading alone, ${figure(size)} events: ${rate(size, readMs)}`)
          for (const format of formats) {
            const path = join(directory, format)
            const startMs = performance.now()
            const options = { format, book: null, until: null }
            const { decode } = createCodec()
            const { events } = await exportLedger(
              { log, decode, clock: Date.now, calendar: utcCalendar },
              await fileSink(path),
              options,
            )
            const tookMs = performance.now() - startMs
            print(
              `export ${format}: ${rate(events, tookMs)}, ${figure(tookMs / readMs, 1)} times as long as reading alone; ${sizeText((await stat(path)).size)}`,
            )
          }
          return ms
        })
        await withLog(url, async ({ log }) => {
          const file = await open(join(directory, 'jsonl'))
          try {
            const startMs = performance.now()
            const { events } = await importLog(log, file, Date.now)
            const tookMs = performance.now() - startMs
            print(
              `import: ${rate(events, tookMs)}, ${figure(tookMs / writtenMs, 1)} times as long as writing it first; ${sizeText((await file.stat()).size)}`,
            )
          } finally {
            await file.close()
          }
        })
      }
    } finally {
      await rm(directory, { recursive: true, force: true })
    }
  },
}
