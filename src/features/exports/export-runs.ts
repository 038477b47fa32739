import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import type { Sink } from '../../platform/outgoing/file-sink.ts'
import { createRunHistory } from '../../platform/ui/long-runs.ts'
import type { Moment } from '../finance/index.ts'
import type { Exported } from './export-log.ts'
import type { Format } from './journal-formats.ts'

/** What is exported: a format, a book (null: every one) and until when (null: all that is there by now). */
export type ExportRequest = {
  readonly format: Format
  readonly book: string | null
  readonly until: Moment | null
}

/** An export that was begun here. */
export type ExportRun = ExportRequest & {
  readonly startedAtMs: number
  /** Who asked for it: a member of the staff. */
  readonly by: string
  readonly state:
    | { readonly kind: 'runs'; readonly events: number }
    | { readonly kind: 'broke off' }
    | {
        readonly kind: 'whole'
        /** Of the last event in it. */
        readonly position: number
        readonly events: number
        /** Lines of the file. */
        readonly lines: number
        readonly bytes: number
        /** SHA-256 of the file, lower-case hex. */
        readonly sha256: string
      }
}

export type Exporter = (
  sink: Sink,
  asked: ExportRequest & { readonly onProgress: (position: number, events: number) => void },
) => Promise<Exported>

/** How many may run at once: each reads the whole log. */
const atOnce = 2

/** Whoever downloaded it went away. */
class Left extends Error {
  override readonly name = 'Left'
}

const lineEnd = 10

/**
 * Exports as files that stream, at the pace of whoever reads them, and what became of the last ones: how many lines, and the
 * digest of what was sent. An export through a position is always the same bytes, so the digest tells two of them apart.
 */
export const createExportRuns = (exporter: Exporter) => {
  const runs = createRunHistory<ExportRun>()
  let running = 0

  return {
    /** Newest first; of this process alone. */
    list: runs.list,
    /** The file; null while as many as may run do. */
    start: (asked: ExportRequest, by: string, nowMs: number): Readable | null => {
      if (running >= atOnce) return null
      running += 1
      const become = runs.begin({ ...asked, by, startedAtMs: nowMs, state: { kind: 'runs', events: 0 } })
      let room = Promise.withResolvers<void>()
      const file = new Readable({
        read: () => room.resolve(),
        destroy: (error, done) => {
          room.resolve()
          done(error)
        },
      })
      const hash = createHash('sha256')
      let lines = 0
      const sink: Sink = {
        write: async (data) => {
          const bytes = Buffer.from(data)
          if (bytes.length === 0) return
          hash.update(bytes)
          for (const byte of bytes) if (byte === lineEnd) lines += 1
          room = Promise.withResolvers()
          if (!file.destroyed && !file.push(bytes)) await room.promise
          if (file.destroyed) throw new Left('nobody reads it any more')
        },
        finish: async () => {
          file.push(null)
        },
        abandon: async () => undefined,
      }
      const onProgress = (_position: number, events: number): void => become({ kind: 'runs', events })
      void exporter(sink, { ...asked, onProgress })
        .then(
          ({ position, events, bytes }) =>
            become({ kind: 'whole', position, events, lines, bytes, sha256: hash.digest('hex') }),
          (error) => {
            become({ kind: 'broke off' })
            file.destroy(error)
          },
        )
        .finally(() => {
          running -= 1
        })
      return file
    },
  }
}

export type ExportRuns = ReturnType<typeof createExportRuns>
