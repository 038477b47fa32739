import type { RebuildOptions, RebuildProgress, RebuildResult } from '../../../projections/engine/rebuild.ts'
import { createLongRuns, type LongRun } from '../frame/long-runs.ts'

type Asked = {
  readonly group: string
  /** The new tables are compared with the live ones and dropped. */
  readonly compareOnly: boolean
}

/** A rebuild of a group of read tables that was begun here. */
export type RebuildRun = LongRun<Asked, RebuildProgress, RebuildResult>

/** Makes all tables of a group anew. */
export type Rebuilder = (group: string, options: RebuildOptions) => Promise<RebuildResult | undefined>

/** Rebuilds that pages start, one at a time. One that is broken off leaves the live tables as they were. */
export const createRebuildRuns = (rebuilder: Rebuilder) => {
  const { list, start, stop } = createLongRuns<Asked, RebuildProgress, RebuildResult>()
  return {
    list,
    stop,
    /** Begins it and does not wait for its end; false while another one runs, or once `stop` was called. */
    start: (asked: Asked & Pick<RebuildRun, 'by' | 'startedAtMs'>): boolean =>
      start(asked, async (on) => {
        const result = await rebuilder(asked.group, { compareOnly: asked.compareOnly, ...on })
        if (result === undefined) throw new Error('it has no tables')
        return result
      }) !== null,
  }
}

export type RebuildRuns = ReturnType<typeof createRebuildRuns>
