import { isoTime } from '../../kernel/clock.ts'
import { type Html, html } from './html.ts'
import { type Column, tableOf } from './table.ts'
import { countText, stateText, timeText } from './text.ts'

/** The number of stored runs. */
const maxRuns = 20

/** Work that pages start and whose state they show: the last runs of this process, newest first. */
export const createRunHistory = <Run extends { readonly state: unknown }>() => {
  let runs: readonly Run[] = []
  return {
    list: (): readonly Run[] => runs,
    /** Adds a run. Call the returned function with each later state. */
    begin: (first: Run): ((state: Run['state']) => void) => {
      let run = first
      runs = [run, ...runs].slice(0, maxRuns)
      return (state) => {
        const next = { ...run, state }
        runs = runs.map((each) => (each === run ? next : each))
        run = next
      }
    },
  }
}

/** Work over the whole log that a page started: its request, its author and its progress. */
export type LongRun<Request, Progress, Result> = Request & {
  /** The member of the staff who requested it. */
  readonly by: string
  readonly startedAtMs: number
  readonly state:
    | { readonly kind: 'runs'; readonly progress: Progress | null }
    | { readonly kind: 'done'; readonly result: Result }
    | { readonly kind: 'failed'; readonly why: string }
}

/** Does the work. It throws as soon as `signal` is aborted. */
type LongWork<Progress, Result> = (on: {
  readonly signal: AbortSignal
  readonly onProgress: (progress: Progress) => void
}) => Promise<Result>

/**
 * Work that pages start without waiting for its end. One run at a time, because each reads the whole log. Stores the
 * last runs.
 */
export const createLongRuns = <Request extends object, Progress, Result>() => {
  type Run = LongRun<Request, Progress, Result>
  const runs = createRunHistory<Run>()
  let running: Promise<void> | null = null
  const stopping = new AbortController()

  return {
    /** Newest first; of this process only. */
    list: runs.list,
    /**
     * Starts a run. The promise resolves at its end, also after a failure. Null while another run is active, and after
     * `stop`.
     */
    start: (
      input: Request & Pick<Run, 'by' | 'startedAtMs'>,
      work: LongWork<Progress, Result>,
    ): Promise<void> | null => {
      if (running !== null || stopping.signal.aborted) return null
      const setState = runs.begin({ ...input, state: { kind: 'runs', progress: null } } as Run)
      running = work({
        signal: stopping.signal,
        onProgress: (progress) => setState({ kind: 'runs', progress }),
      })
        .then(
          (result) => setState({ kind: 'done', result }),
          (error) =>
            setState({ kind: 'failed', why: error instanceof Error ? error.message : String(error) }),
        )
        .finally(() => {
          running = null
        })
      return running
    },
    /** Aborts the active run and waits for its end. */
    stop: async (): Promise<void> => {
      stopping.abort()
      await running
    },
  }
}

/** The progress of work, as a bar and in words. */
export const progressBar = (done: number, total: number, words: string): Html =>
  html`<progress aria-label="Progress" max="${Math.max(total, 1)}" value="${Math.min(done, Math.max(total, 1))}"></progress><br><small class="soft">${words}</small>`

/** The state of a run: its progress, its error, or its result. */
export const runStateOf = <Progress, Result>(
  { state }: Pick<LongRun<object, Progress, Result>, 'state'>,
  views: { readonly running: (progress: Progress) => Html; readonly done: (result: Result) => Html },
): Html => {
  switch (state.kind) {
    case 'runs':
      return state.progress === null ? stateText('starting', 'warn') : views.running(state.progress)
    case 'failed':
      return html`${stateText('failed', 'bad')}<br><small>${state.why}</small>`
    case 'done':
      return views.done(state.result)
    default:
      return state satisfies never
  }
}

/** The progress of a run that folds the log. */
export const foldProgress = (progress: {
  readonly done: number
  readonly total: number
  readonly events: number
}): Html =>
  html`${stateText('reading the log', 'warn')} ${progressBar(progress.done, progress.total, `${countText(progress.events, 'event')} so far`)}`

/** The result of a finished run; null before. */
export const resultOf = <Progress, Result>({
  state,
}: Pick<LongRun<object, Progress, Result>, 'state'>): Result | null =>
  state.kind === 'done' ? state.result : null

/**
 * A table of runs that refreshes automatically while one of them is active, with the island `live-parts`. Without
 * script, its link reloads the page.
 */
export const runsTable = <Run extends LongRun<object, unknown, unknown>>(table: {
  readonly id: string
  readonly path: string
  readonly caption: string
  readonly runs: readonly Run[]
  readonly columns: readonly Column<Run>[]
  readonly empty?: string
  /** Refreshed with the table. */
  readonly more?: Html
}): Html =>
  html`<live-parts><div id="${table.id}" data-live${table.runs.some(({ state }) => state.kind === 'runs') ? { html: ' data-runs' } : null}>
<p class="soft">Since this process started. <a href="${table.path}">Refresh</a></p>
${tableOf({
  caption: table.caption,
  rows: table.runs,
  empty: table.empty,
  columns: [
    ...table.columns,
    { title: 'Started', cell: ({ startedAtMs }) => timeText(isoTime(startedAtMs)) },
    { title: 'By', cell: ({ by }) => by },
  ],
})}
${table.more ?? null}</div></live-parts>`
