import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import pLimit from 'p-limit'
import type { Sink } from '../../platform/outgoing/file-sink.ts'
import { createRunHistory } from '../../platform/ui/long-runs.ts'
import type { TypedMoment } from '../finance/index.ts'
import type { Exported } from './export-log.ts'
import type { Format } from './journal-formats.ts'

/** An export: a format, a book (null: every one) and an end (null: everything until now). */
export type ExportRequest = {
  readonly format: Format
  readonly book: string | null
  readonly until: TypedMoment | null
}

/** An export that this process started. */
export type ExportRun = ExportRequest & {
  readonly startedAtMs: number
  /** The staff member who requested it. */
  readonly by: string
  readonly state:
    | { readonly kind: 'runs'; readonly events: number }
    | { readonly kind: 'broke off' }
    | {
        readonly kind: 'whole'
        /** Position of the last exported event. */
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
  exportRequest: ExportRequest & { readonly onProgress: (position: number, events: number) => void },
) => Promise<Exported>

/** Concurrent exports. Each reads the whole log. */
const maxConcurrent = 2

/** The client closed the download. */
class ReaderLeft extends Error {
  override readonly name = 'ReaderLeft'
}

const lineEnd = 10

/**
 * Streams exports as files at the speed of the reader. Stores the results of the last ones: number of lines, and digest
 * of the sent bytes. Exports up to the same position have the same bytes, so the digest shows differences.
 */
export const createExportRuns = (exporter: Exporter) => {
  const runs = createRunHistory<ExportRun>()
  const limiter = pLimit(maxConcurrent)

  return {
    /** Newest first; only of this process. */
    list: runs.list,
    /** The file; null while the maximum number of exports runs. */
    start: (exportRequest: ExportRequest, by: string, nowMs: number): Readable | null => {
      if (limiter.activeCount >= maxConcurrent) return null
      const setState = runs.begin({
        ...exportRequest,
        by,
        startedAtMs: nowMs,
        state: { kind: 'runs', events: 0 },
      })
      let drain = Promise.withResolvers<void>()
      const file = new Readable({
        read: () => drain.resolve(),
        destroy: (error, callback) => {
          drain.resolve()
          callback(error)
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
          drain = Promise.withResolvers()
          if (!file.destroyed && !file.push(bytes)) await drain.promise
          if (file.destroyed) throw new ReaderLeft('the reader is gone')
        },
        finish: async () => {
          file.push(null)
        },
        abandon: async () => undefined,
      }
      const onProgress = (_position: number, events: number): void => setState({ kind: 'runs', events })
      void limiter(() => exporter(sink, { ...exportRequest, onProgress })).then(
        ({ position, events, bytes }) =>
          setState({ kind: 'whole', position, events, lines, bytes, sha256: hash.digest('hex') }),
        (error) => {
          setState({ kind: 'broke off' })
          file.destroy(error)
        },
      )
      return file
    },
  }
}

export type ExportRuns = ReturnType<typeof createExportRuns>
