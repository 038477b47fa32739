import type pg from 'pg'
import { isoTime } from '../../kernel/clock.ts'

/** How a feed went. */
export type SourceState = {
  readonly sourceId: string
  readonly etag: string | null
  readonly lastModified: string | null
  readonly nextAt: string
  readonly readAt: string
  readonly outcome: 'read' | 'unchanged' | 'failed'
  readonly problem: string | null
  /** In a row. */
  readonly failures: number
  /** Of the last time that it was read whole: those that may be checked, those that may not, and what names none. */
  readonly candidates: number
  readonly refused: number
  readonly unreadable: number
  /** New ones that came from it, ever. */
  readonly added: number
}

export type SourceStore = {
  read(): Promise<ReadonlyMap<string, SourceState>>
  keep(
    state: Omit<SourceState, 'nextAt' | 'readAt'> & { readonly nextMs: number; readonly readMs: number },
  ): Promise<void>
}

export const createSourceStore = (pool: pg.Pool): SourceStore => ({
  read: async () => {
    const { rows } = await pool.query<SourceState>(
      `select source_id as "sourceId", etag, last_modified as "lastModified", next_at as "nextAt", read_at as "readAt",
              outcome, problem, failures, candidates, refused, unreadable, added
         from work.proxy_sources`,
    )
    return new Map(rows.map((row) => [row.sourceId, row]))
  },
  keep: async (state) => {
    await pool.query(
      `insert into work.proxy_sources
         (source_id, etag, last_modified, next_at, read_at, outcome, problem, failures, candidates, refused, unreadable, added)
       values ($1::text, $2::text, $3::text, $4::timestamptz, $5::timestamptz, $6::text, $7::text, $8::int, $9::int, $10::int,
               $11::int, $12::bigint)
       on conflict (source_id) do update
         set etag = excluded.etag, last_modified = excluded.last_modified, next_at = excluded.next_at,
             read_at = excluded.read_at, outcome = excluded.outcome, problem = excluded.problem,
             failures = excluded.failures, candidates = excluded.candidates, refused = excluded.refused,
             unreadable = excluded.unreadable, added = excluded.added`,
      [
        state.sourceId,
        state.etag,
        state.lastModified,
        isoTime(state.nextMs),
        isoTime(state.readMs),
        state.outcome,
        state.problem,
        state.failures,
        state.candidates,
        state.refused,
        state.unreadable,
        state.added,
      ],
    )
  },
})
