import type { TestEvent } from './pool.ts'

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
export const minutesOf = (file: string): number => expectedMinutes[file] ?? shortMinutes

/** Concurrent files. Each starts its own processes and a load on them. */
export const filesAtOnce = 2
const progressEveryMs = 15_000

type Ended = { readonly file: string; readonly minutes: number }

const clock = (minutes: number): string => `${Math.floor(minutes)} min ${Math.round((minutes % 1) * 60)} s`

/**
 * The running and ended files of a soak, the counts that tests printed (lines that begin with `# `), and the
 * remaining time, on standard error.
 */
export const createProgress = (files: readonly string[]) => {
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
  const report = (text: string): void => void process.stderr.write(`${text}\n`)
  const line = (): string => {
    const running = [...beganMs].map(([file, ms]) => {
      const counted = [...counts.values()].findLast((each) => each.startsWith(`${file} # `))
      return counted ?? `${file} (${clock(minutesSince(ms))})`
    })
    return `soak: ${ended.length} of ${files.length} files in ${clock(minutesSince(startedMs))}, about ${Math.ceil(minutesLeft())} min left; running ${running.join(', ')}`
  }
  const timer = setInterval(() => report(line()), progressEveryMs)
  return {
    began: (file: string): void => void beganMs.set(file, performance.now()),
    /** An event of a file: what a test printed, or its failure. */
    event: (file: string, { type, data }: TestEvent): void => {
      if (type === 'test:complete' && data.details?.error && !data.todo)
        report(`soak: FAILED ${file}: ${data.name}`)
      if (type !== 'test:stdout') return
      for (const printed of data.message?.split('\n') ?? [])
        if (printed.startsWith('# ')) counts.set(`${file} ${printed.split(/[:{]/)[0]}`, `${file} ${printed}`)
    },
    ended: (file: string): void => {
      ended.push({ file, minutes: minutesSince(beganMs.get(file) ?? startedMs) })
      beganMs.delete(file)
    },
    end: (): void => {
      clearInterval(timer)
      const longest = [...ended].sort((a, b) => b.minutes - a.minutes).slice(0, 12)
      const lines = [
        `soak: ${ended.length} files in ${clock(minutesSince(startedMs))}; the longest:`,
        ...longest.map(({ file, minutes }) => `  ${clock(minutes).padStart(12)}  ${file}`),
        'what the tests counted:',
        ...[...counts.values()].sort().map((line) => `  ${line}`),
      ]
      report(lines.join('\n'))
    },
  }
}
