/** The progress of long work. */
export type ProgressStep = {
  /** The current step, e.g. `hot: fold`. */
  readonly label: string
  /** Of `total`, in the same unit. */
  readonly done: number
  readonly total: number
  /** The number of processed items, for the rate. */
  readonly count: number
  readonly unit: string
  readonly perSecond: number
  /** Null until it can be estimated. */
  readonly secondsLeft: number | null
}

/** Draws each step over the last one on a terminal. Without a terminal it draws nothing. */
export type ProgressBar = {
  show(step: ProgressStep): void
  /** Prints a separate line, on a terminal or not. */
  say(text: string): void
  end(): void
}

type Stream = Pick<NodeJS.WriteStream, 'write'> & { readonly isTTY?: boolean }

const barWidth = 24

const duration = (seconds: number): string =>
  seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`

/** One line such as `export  ████████░░░░  412,000 events, 31,200/s, 18 s left`. */
export const progressLine = (step: ProgressStep): string => {
  const share = step.total === 0 ? 1 : Math.min(1, step.done / step.total)
  const full = Math.round(share * barWidth)
  const bar = '█'.repeat(full) + '░'.repeat(barWidth - full)
  const figures = [
    `${step.count.toLocaleString('en-US')} ${step.unit}`,
    `${step.perSecond.toLocaleString('en-US')}/s`,
  ]
  if (step.secondsLeft !== null) figures.push(`${duration(step.secondsLeft)} left`)
  return `${step.label}  ${bar}  ${figures.join(', ')}`
}

const everyMs = 100

/** A line that is redrawn at most ten times a second, only if the stream is a terminal. */
export const createProgressBar = (stream: Stream): ProgressBar => {
  let lastDrawnMs = Number.NEGATIVE_INFINITY
  let label: string | null = null
  const end = (): void => {
    if (label !== null) stream.write('\r\x1b[K')
    label = null
  }
  return {
    show: (step) => {
      if (stream.isTTY !== true) return
      const nowMs = performance.now()
      if (step.label === label && step.done < step.total && nowMs - lastDrawnMs < everyMs) return
      lastDrawnMs = nowMs
      label = step.label
      stream.write(`\r\x1b[K${progressLine(step)}`)
    },
    say: (text) => {
      end()
      stream.write(`${text}\n`)
    },
    end,
  }
}

/** Does work with a progress bar on standard error. */
export const withProgress = async <Value>(work: (bar: ProgressBar) => Promise<Value>): Promise<Value> => {
  const bar = createProgressBar(process.stderr)
  try {
    return await work(bar)
  } finally {
    bar.end()
  }
}

/**
 * Shows work with a known `total` step by step. The rate and the remaining time are based on the work since the first
 * step, because earlier work took no time in this run.
 */
export const stepsOf = (bar: ProgressBar, label: string, total: number, unit = 'events') => {
  let first: { readonly atMs: number; readonly done: number; readonly count: number } | null = null
  return (done: number, count: number): void => {
    const nowMs = performance.now()
    first ??= { atMs: nowMs, done, count }
    const seconds = (nowMs - first.atMs) / 1000
    const finished = done - first.done
    bar.show({
      label,
      done,
      total,
      count,
      unit,
      perSecond: seconds > 0 ? Math.round((count - first.count) / seconds) : 0,
      secondsLeft: finished > 0 ? Math.max(0, Math.round((seconds * (total - done)) / finished)) : null,
    })
  }
}
