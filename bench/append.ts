import { randomBytes } from 'node:crypto'
import pg from 'pg'
import type { Contender } from './append/contender.ts'
import { emmett } from './append/emmett.ts'
import { farebox } from './append/farebox.ts'
import { messageDb } from './append/message-db.ts'
import { installPeers } from './append/peers.ts'

export type AppendBenchOptions = {
  /** A Postgres where databases may be made. */
  readonly url: string
  /** How long each contender appends at each number of writers; default 3. */
  readonly seconds?: number
  readonly contenders?: readonly Contender[]
  readonly writers?: readonly number[]
  print(line: string): void
}

export type AppendResult = {
  readonly contender: string
  readonly writers: number
  readonly appendsPerSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
}

const durability = ['fsync', 'synchronous_commit', 'full_page_writes', 'server_version']

const withClient = async <Value>(url: string, use: (client: pg.Client) => Promise<Value>): Promise<Value> => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return await use(client)
  } finally {
    await client.end()
  }
}

const percentile = (sorted: readonly number[], share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0

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
 * Postgres log beside others on the same server, each in a fresh database, one after another. Prints the durability
 * settings, a line each, and how many times faster ours was.
 */
export const benchAppends = async (options: AppendBenchOptions): Promise<readonly AppendResult[]> => {
  const { url, print, seconds = 3, writers = [1, 32, 256] } = options
  const contenders = options.contenders ?? (await withPeers(print))
  const settings = await withClient(url, async (client) => {
    const { rows } = await client.query(
      'select name, setting from pg_settings where name = any($1::text[]) order by name',
      [durability],
    )
    return rows.map(({ name, setting }) => `${name} = ${setting}`)
  })
  print(`appends of one event; ${settings.join(', ')}`)
  const results: AppendResult[] = []
  for (const count of writers)
    for (const contender of contenders) {
      const database = `farebox_bench_${randomBytes(4).toString('hex')}`
      const own = new URL(url)
      own.pathname = `/${database}`
      await withClient(url, (client) => client.query(`create database ${database}`))
      try {
        const result = await measure(contender, own.toString(), count, seconds)
        const ours = results.find((each) => each.writers === count && each.contender === farebox.name)
        const ratio =
          ours === undefined
            ? ''
            : `, farebox is ${(ours.appendsPerSecond / result.appendsPerSecond).toFixed(1)} times that`
        results.push(result)
        print(
          `${contender.name.padEnd(12)} ${String(count).padStart(4)} writers ${String(result.appendsPerSecond).padStart(7)} /s` +
            `  p50 ${result.p50Ms.toFixed(1)} ms  p99 ${result.p99Ms.toFixed(1)} ms${ratio}`,
        )
      } finally {
        await withClient(url, (client) => client.query(`drop database ${database} with (force)`))
      }
    }
  return results
}
