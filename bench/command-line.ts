import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Bench, figure } from './bench.ts'

const run = promisify(execFile)
const program = join(import.meta.dirname, '../bin/farebox')

/** What a command may take to start, milliseconds of processor time. */
const limitMs = 300
const runs = 5

const commandLines = [
  ['--help'],
  ['orders', 'list', '--help'],
  ['ledger', 'verify', '--help'],
  ['doctor', '--help'],
]

/** Processor time of this process's children that ended, milliseconds. Reads `/proc`, so Linux is needed; elsewhere 0. */
const childrenMs = async (): Promise<number> => {
  const stat = await readFile('/proc/self/stat', 'utf8').catch(() => null)
  if (stat === null) return 0
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[13]) + Number(fields[14])) * 10
}

/** `farebox … --help`: what a command loads before it begins its work. */
export const commandLine: Bench = {
  name: 'command-line',
  what: 'processor time of a command until it begins its work; limit 0.3 s',
  run: async ({ print }) => {
    for (const args of commandLines) {
      await run(program, args) // fills the compile cache
      const before = await childrenMs()
      for (let n = 0; n < runs; n += 1) await run(program, args)
      const tookMs = ((await childrenMs()) - before) / runs
      print(
        `farebox ${args.join(' ')}: ${figure(tookMs)} ms of processor time, ${figure(tookMs / limitMs, 2)} of the limit`,
      )
    }
  },
}
