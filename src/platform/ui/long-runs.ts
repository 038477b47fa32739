import { type Html, html } from './html.ts'

/** So many of the last runs are remembered. */
const kept = 20

/** Work that pages begin and whose state they show: the last runs of this process, newest first. */
export const createRunHistory = <Run extends { readonly state: unknown }>() => {
  let runs: readonly Run[] = []
  return {
    list: (): readonly Run[] => runs,
    /** Adds a run; call what it gives with each later state. */
    begin: (first: Run): ((state: Run['state']) => void) => {
      let run = first
      runs = [run, ...runs].slice(0, kept)
      return (state) => {
        const next = { ...run, state }
        runs = runs.map((each) => (each === run ? next : each))
        run = next
      }
    },
  }
}

/** Work over the whole log that a page began: what was asked for, by whom, and how far it is. */
export type LongRun<Request, Progress, Result> = Request & {
  /** Who asked for it: a member of the staff. */
  readonly by: string
  readonly startedAtMs: number
  readonly state:
    | { readonly kind: 'runs'; readonly progress: Progress | null }
    | { readonly kind: 'done'; readonly result: Result }
    | { readonly kind: 'failed'; readonly why: string }
}

/** Does the work; it throws as soon as it sees that `signal` is aborted. */
export type LongWork<Progress, Result> = (on: {
  readonly signal: AbortSignal
  readonly onProgress: (progress: Progress) => void
}) => Promise<Result>

/** Work that pages begin and do not wait for: one at a time, since each reads the whole log, and what became of the last. */
export const createLongRuns = <Request extends object, Progress, Result>() => {
  type Run = LongRun<Request, Progress, Result>
  const runs = createRunHistory<Run>()
  let running: Promise<void> | null = null
  const stopping = new AbortController()

  return {
    /** Newest first; of this process alone. */
    list: runs.list,
    /** Begins it. What it gives resolves at its end, whatever that is; null while another runs, or once `stop` was called. */
    start: (
      asked: Request & Pick<Run, 'by' | 'startedAtMs'>,
      work: LongWork<Progress, Result>,
    ): Promise<void> | null => {
      if (running !== null || stopping.signal.aborted) return null
      const become = runs.begin({ ...asked, state: { kind: 'runs', progress: null } } as Run)
      running = work({
        signal: stopping.signal,
        onProgress: (progress) => become({ kind: 'runs', progress }),
      })
        .then(
          (result) => become({ kind: 'done', result }),
          (error) => become({ kind: 'failed', why: error instanceof Error ? error.message : String(error) }),
        )
        .finally(() => {
          running = null
        })
      return running
    },
    /** Breaks off what runs. */
    stop: async (): Promise<void> => {
      stopping.abort()
      await running
    },
  }
}

/** How far work is, as a bar and in words. */
export const progressBar = (done: number, total: number, words: string): Html =>
  html`<progress aria-label="Progress" max="${Math.max(total, 1)}" value="${Math.min(done, Math.max(total, 1))}"></progress><br><small class="soft">${words}</small>`

/**
 * A part of a page that follows by itself while work runs, with the island `live-parts`; without script its link shows the
 * page again.
 */
export const followingRuns = (id: string, here: string, running: boolean, part: Html): Html =>
  html`<live-parts><div id="${id}" data-live${running ? { html: ' data-runs' } : null}>
<p class="soft">By this process, since it began. <a href="${here}">Refresh</a></p>
${part}</div></live-parts>`
