import { stepsOf } from '../src/platform/cli/progress-bar.ts'
import type { Contender } from './append/contender.ts'
import { emmett } from './append/emmett.ts'
import { farebox } from './append/farebox.ts'
import { messageDb } from './append/message-db.ts'
import { installPeers } from './append/peers.ts'
import type { Bench } from './bench.ts'
import { withDatabase } from './database.ts'
import { percentile } from './percentile.ts'

const writers = [1, 32, 256]
/** More repetitions give no more information: each append is the same. */
const maxSeconds = 3

type AppendResult = {
  readonly contender: string
  readonly writers: number
  readonly appendsPerSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
}

const measure = async (
  contender: Contender,
  url: string,
  writers: number,
  seconds: number,
): Promise<AppendResult> => {
  const store = await contender.open(url)
  try {
    const latenciesMs: number[] = []
    const startedMs = performance.now()
    const endMs = startedMs + seconds * 1_000
    const write = async (writer: number): Promise<void> => {
      for (let n = 0, nowMs = performance.now(); nowMs < endMs; n++) {
        await store.append(writer, n)
        const doneMs = performance.now()
        latenciesMs.push(doneMs - nowMs)
        nowMs = doneMs
      }
    }
    await Promise.all(Array.from({ length: writers }, (_, writer) => write(writer)))
    const elapsedMs = performance.now() - startedMs
    latenciesMs.sort((a, b) => a - b)
    return {
      contender: contender.name,
      writers,
      appendsPerSecond: Math.round((latenciesMs.length / elapsedMs) * 1_000),
      p50Ms: percentile(latenciesMs, 0.5),
      p99Ms: percentile(latenciesMs, 0.99),
    }
  } finally {
    await store.close()
  }
}

const withPeers = async (print: (line: string) => void): Promise<readonly Contender[]> => {
  try {
    await installPeers()
    return [farebox, emmett, messageDb]
  } catch (error) {
    print(`Emmett and message-db are left out, they cannot be installed: ${(error as Error).message}`)
    return [farebox]
  }
}

/**
 * Single appends a second at some numbers of writers, each writer on a stream of its own with one append in flight: our
 * Postgres log and others on the same server, each in a fresh database, one after another.
 */
export const appends: Bench = {
  name: 'appends',
  what: 'appends a second at 1, 32 and 256 writers, compared with Emmett and message-db',
  run: async ({ url, print, bar, sizes }) => {
    const contenders = await withPeers(print)
    const seconds = Math.min(maxSeconds, sizes.seconds)
    const results: AppendResult[] = []
    const step = stepsOf(bar, 'appends', writers.length * contenders.length, 'runs')
    for (const count of writers)
      for (const contender of contenders) {
        step(results.length, results.length)
        const result = await withDatabase(url, (own) => measure(contender, own, count, seconds))
        const ours = results.find((each) => each.writers === count && each.contender === farebox.name)
        const ratio =
          ours === undefined
            ? ''
            : `, farebox is ${(ours.appendsPerSecond / result.appendsPerSecond).toFixed(1)} times that`
        results.push(result)
        bar.end()
        print(
          `${contender.name.padEnd(12)} ${String(count).padStart(4)} writers ${String(result.appendsPerSecond).padStart(7)} /s` +
            `  p50 ${result.p50Ms.toFixed(1)} ms  p99 ${result.p99Ms.toFixed(1)} ms${ratio}`,
        )
      }
  },
}
