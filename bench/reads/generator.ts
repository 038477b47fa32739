import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { runLoad } from '../orders/load.ts'

const run = promisify(execFile)

export type Get = { readonly key: string; readonly path: string }

export type ReadLoad = {
  readonly url: URL
  /** Sent in turn, over and over. */
  readonly gets: readonly Get[]
  readonly connections: number
  readonly seconds: number
}

export type ReadFigures = {
  readonly answered: number
  readonly perSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** Bytes of all answers, heads included; NaN where the generator does not count them. */
  readonly bytes: number
  /** Answers that are no success. */
  readonly failed: number
}

/** A closed loop over some connections, in a process of its own. */
export type Generator = { readonly name: string; load(wanted: ReadLoad): Promise<ReadFigures> }

type Printed = {
  readonly requests: number
  readonly micros: number
  readonly failed: number
  readonly bytes: number
  readonly p50Micros: number
  readonly p99Micros: number
}

const wrk = (directory: string): Generator => ({
  name: 'wrk, one thread',
  async load({ url, gets, connections, seconds }) {
    const file = join(directory, 'requests.txt')
    await writeFile(file, gets.map(({ key, path }) => `${key} ${path}\n`).join(''))
    const { stdout } = await run(
      'wrk',
      [
        '--threads=1',
        `--connections=${connections}`,
        `--duration=${seconds}s`,
        `--script=${join(import.meta.dirname, 'wrk.lua')}`,
        url.origin,
      ],
      { env: { ...process.env, READS_REQUESTS: file } },
    )
    const line = stdout.split('\n').find((each) => each.startsWith('{'))
    if (line === undefined) throw new Error(`wrk printed no figures: ${stdout}`)
    const { requests, micros, failed, bytes, p50Micros, p99Micros } = JSON.parse(line) as Printed
    return {
      answered: requests,
      perSecond: (requests * 1_000_000) / micros,
      p50Ms: p50Micros / 1000,
      p99Ms: p99Micros / 1000,
      bytes,
      failed,
    }
  },
})

const own: Generator = {
  name: "the benchmark's own generator, one process (Debian has the cheaper one in the package wrk)",
  async load({ url, gets, connections, seconds }) {
    const { perSecond, p50Ms, p99Ms, statuses } = await runLoad({
      host: url.hostname,
      port: Number(url.port),
      connections,
      warmUpMs: 0,
      measureMs: seconds * 1000,
      run: '',
      path: gets.map(({ path }) => path),
      keys: gets.map(({ key }) => key),
      bodies: [],
    })
    const answered = Object.values(statuses).reduce((sum, count) => sum + count, 0)
    return { answered, perSecond, p50Ms, p99Ms, bytes: Number.NaN, failed: answered - (statuses['200'] ?? 0) }
  },
}

/** `wrk` where it is installed: it takes a third of the processor time of our own. */
export const chooseGenerator = async (directory: string): Promise<Generator> =>
  run('wrk', ['--version']).then(
    () => wrk(directory),
    // It prints its version and ends with 1.
    (error: { code?: unknown }) => (error.code === 1 ? wrk(directory) : own),
  )
