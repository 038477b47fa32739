import type { RebuildOptions, RebuildProgress, RebuildResult } from '../../../projections/engine/rebuild.ts'
import { createKeptRuns } from '../frame/kept-runs.ts'

/** A rebuild of a group of read tables that was begun here. */
export type RebuildRun = {
  readonly group: string
  /** The new tables are compared with the live ones and dropped. */
  readonly compareOnly: boolean
  /** Who asked for it: a member of the staff. */
  readonly by: string
  readonly startedAtMs: number
  readonly state:
    | { readonly kind: 'runs'; readonly progress: RebuildProgress | null }
    | { readonly kind: 'done'; readonly result: RebuildResult }
    | { readonly kind: 'failed'; readonly why: string }
}

/** Makes all tables of a group anew. */
export type Rebuilder = (group: string, options: RebuildOptions) => Promise<RebuildResult | undefined>

/** Rebuilds that pages start: one at a time, since each folds the whole log, and what became of the last ones. */
export const createRebuildRuns = (rebuilder: Rebuilder) => {
  const runs = createKeptRuns<RebuildRun>()
  let running: Promise<void> | null = null
  const stopping = new AbortController()

  return {
    /** Newest first; of this process alone. */
    list: runs.list,
    /** Begins it and does not wait for its end; false while another one runs, or once `stop` was called. */
    start: (asked: Pick<RebuildRun, 'group' | 'compareOnly' | 'by'>, nowMs: number): boolean => {
      if (running !== null || stopping.signal.aborted) return false
      const become = runs.begin({ ...asked, startedAtMs: nowMs, state: { kind: 'runs', progress: null } })
      running = rebuilder(asked.group, {
        compareOnly: asked.compareOnly,
        signal: stopping.signal,
        onProgress: (progress) => become({ kind: 'runs', progress }),
      })
        .then(
          (result) =>
            become(
              result === undefined ? { kind: 'failed', why: 'it has no tables' } : { kind: 'done', result },
            ),
          (error) => become({ kind: 'failed', why: error instanceof Error ? error.message : String(error) }),
        )
        .finally(() => {
          running = null
        })
      return true
    },
    /** Breaks off what runs; the live tables stand as they were. */
    stop: async (): Promise<void> => {
      stopping.abort()
      await running
    },
  }
}

export type RebuildRuns = ReturnType<typeof createRebuildRuns>
