import { type Html, html } from './html.ts'

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
export type LongWork<Progress, Result> = (on: {
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

/**
 * A part of a page that refreshes automatically while work runs, with the island `live-parts`. Without script, its link
 * reloads the page.
 */
export const followingRuns = (id: string, pagePath: string, running: boolean, part: Html): Html =>
  html`<live-parts><div id="${id}" data-live${running ? { html: ' data-runs' } : null}>
<p class="soft">By this process, since it began. <a href="${pagePath}">Refresh</a></p>
${part}</div></live-parts>`
