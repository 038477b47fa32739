import { once } from 'node:events'
import { relative } from 'node:path'
import { finished } from 'node:stream/promises'
import { run } from 'node:test'
import { spec } from 'node:test/reporters'

/**
 * The slow files of a soak, with the minutes that each takes on two cores: they start first, the longest of
 * all, so that everything else runs at the same time; the remaining time is computed from them.
 */
const expectedMinutes: Readonly<Record<string, number>> = {
  'test/model/model.test.ts': 30,
  'test/crash/payments.test.ts': 13.5,
  'test/crash/orders.test.ts': 8,
  'test/features/webhooks/fan-out.test.ts': 7,
  'test/gateway/admit/accounting.test.ts': 6,
  'test/features/subscriptions/renewals.test.ts': 3.5,
  'test/contract/fuzz.test.ts': 2.5,
  'test/audit/damaged.test.ts': 2,
  'test/audit/mutations.test.ts': 2,
  'test/features/free-list/million.test.ts': 4,
  'test/features/free-list/cycle.test.ts': 6,
  'test/crash/customers.test.ts': 1.5,
  'test/gateway/bounds.test.ts': 2,
  'test/gateway/relay/integrity.test.ts': 1.2,
  'test/features/orders/prefix-races.test.ts': 1,
  'test/features/resellers/isolation.test.ts': 1,
  'test/platform/eventstore/prefix-log.test.ts': 1,
  'test/features/deposits/outages.test.ts': 1,
  'test/upgrade/upgrade.test.ts': 2,
  'test/gateway/socks/udp.test.ts': 0.3,
  'test/gateway/http/forwarding.test.ts': 0.2,
}
const shortMinutes = 0.15
const minutesOf = (file: string): number => expectedMinutes[file] ?? shortMinutes

/** Concurrent files. Each starts its own processes and a load on them. */
const filesAtOnce = 2
const testTimeoutMs = 60 * 60_000
const progressEveryMs = 15_000

type Ended = { readonly file: string; readonly minutes: number }

const clock = (minutes: number): string => `${Math.floor(minutes)} min ${Math.round((minutes % 1) * 60)} s`

/**
 * The running and ended files, the counts that tests printed (lines that begin with `# `), and the remaining
 * time.
 */
const createProgress = (files: readonly string[]) => {
  const startedMs = performance.now()
  const beganMs = new Map<string, number>()
  const counts = new Map<string, string>()
  const ended: Ended[] = []
  const minutesSince = (ms: number): number => (performance.now() - ms) / 60_000

  const minutesLeft = (): number => {
    const over = new Set(ended.map(({ file }) => file))
    const running = [...beganMs].map(([file, ms]) => Math.max(0, minutesOf(file) - minutesSince(ms)))
    const waiting = files.filter((file) => !over.has(file) && !beganMs.has(file)).map(minutesOf)
    const sum = [...running, ...waiting].reduce((total, minutes) => total + minutes, 0)
    return Math.max(sum / filesAtOnce, 0, ...running)
  }
  return {
    began: (file: string): void => void beganMs.set(file, performance.now()),
    record: (file: string, text: string): void => {
      for (const line of text.split('\n'))
        if (line.startsWith('# ')) counts.set(`${file} ${line.split(/[:{]/)[0]}`, `${file} ${line}`)
    },
    ended: (file: string): void => {
      ended.push({ file, minutes: minutesSince(beganMs.get(file) ?? startedMs) })
      beganMs.delete(file)
    },
    line: (): string => {
      const running = [...beganMs].map(([file, ms]) => {
        const counted = [...counts.values()].findLast((line) => line.startsWith(`${file} # `))
        return counted ?? `${file} (${clock(minutesSince(ms))})`
      })
      return `soak: ${ended.length} of ${files.length} files in ${clock(minutesSince(startedMs))}, about ${Math.ceil(minutesLeft())} min left; running ${running.join(', ')}`
    },
    summary: (): string => {
      const longest = [...ended].sort((a, b) => b.minutes - a.minutes).slice(0, 12)
      return [
        `soak: ${ended.length} files in ${clock(minutesSince(startedMs))}; the longest:`,
        ...longest.map(({ file, minutes }) => `  ${clock(minutes).padStart(12)}  ${file}`),
        'what the tests counted:',
        ...[...counts.values()].sort().map((line) => `  ${line}`),
      ].join('\n')
    },
  }
}

/**
 * Runs these test files with long counts. It reports progress and the remaining time on standard error, and
 * the counts at the end. A pattern of names can select tests.
 * @returns whether all passed
 */
export const runSoak = async (
  root: string,
  files: readonly string[],
  testNamePatterns: readonly string[],
  signal: AbortSignal,
): Promise<boolean> => {
  const ordered = [...files].sort((a, b) => minutesOf(b) - minutesOf(a))
  const progress = createProgress(ordered)
  const tell = (text: string): void => void process.stderr.write(`${text}\n`)
  let passed = true
  const events = run({
    files: ordered.map((file) => `${root}/${file}`),
    concurrency: filesAtOnce,
    timeout: testTimeoutMs,
    signal,
    ...(testNamePatterns.length === 0 ? {} : { testNamePatterns }),
  })
  // A file is in the events as a test under its own path.
  const asFile = (name: string): string | null => {
    const file = relative(root, name)
    return ordered.includes(file) ? file : null
  }
  events.on('test:dequeue', ({ name }) => {
    const file = asFile(name)
    if (file !== null) progress.began(file)
  })
  // These arrive at once; the report prints a file after the files before it.
  events.on('test:complete', ({ name, file, details, todo, skip }) => {
    const wholeFile = asFile(name)
    if (wholeFile !== null) progress.ended(wholeFile)
    if (details.passed || todo !== undefined || skip !== undefined) return
    passed = false
    tell(`soak: FAILED ${relative(root, file ?? '')}: ${name}`)
  })
  events.on('test:stdout', ({ file, message }) => progress.record(relative(root, file ?? ''), message))
  const timer = setInterval(() => tell(progress.line()), progressEveryMs)
  try {
    const report = events.compose(spec)
    report.pipe(process.stdout, { end: false })
    await Promise.race([finished(report), once(signal, 'abort')])
  } finally {
    clearInterval(timer)
  }
  tell(progress.summary())
  return passed && !signal.aborted
}
