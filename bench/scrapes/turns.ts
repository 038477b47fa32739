import { randomBytes } from 'node:crypto'
import type pg from 'pg'
import { runLoad } from '../orders/load.ts'
import type { LoadJob, LoadResult } from '../orders/load-process.ts'
import { othersOf, ratioErrorOf, together } from '../orders/rounds.ts'
import { cpuSpent } from '../process-cpu.ts'

/** The calls and their keys. */
export type Job = Pick<LoadJob, 'path' | 'keys' | 'bodies'> & Partial<LoadJob>

/** A service that is measured, and its database. */
export type Measured = { readonly base: URL; readonly pid: number; readonly pool: pg.Pool }

/** Runs a load against the service, or whatever else answers at `base`. */
export const load = (
  base: URL,
  job: Job,
  times: { readonly connections: number; readonly warmUpMs: number; readonly measureMs: number },
  stopped?: Promise<unknown>,
): Promise<LoadResult> =>
  runLoad(
    {
      host: base.hostname,
      port: Number(base.port),
      run: randomBytes(4).toString('hex'),
      ...times,
      ...job,
    },
    stopped,
  )

/** Processor time of one request, microseconds. */
type Cpu = { readonly node: number; readonly postgres: number }

type Turn = LoadResult & { readonly cpu: Cpu }

const turn = async (
  { base, pid, pool }: Measured,
  job: Job,
  { connections, warmUpMs, measureMs }: Parameters<typeof load>[2],
): Promise<Turn> => {
  await load(base, job, { connections, warmUpMs: 0, measureMs: warmUpMs })
  const before = await cpuSpent(pid, pool)
  const result = await load(base, job, { connections, warmUpMs: 0, measureMs })
  const after = await cpuSpent(pid, pool)
  const each = (part: keyof Cpu): number => (after[part] - before[part]) / result.latenciesMs.length
  return { ...result, cpu: { node: each('node'), postgres: each('postgres') } }
}

const mean = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length

const rowOf = (turns: readonly Turn[], expected: string) => ({
  ...together(turns),
  cpu: { node: mean(turns.map(({ cpu }) => cpu.node)), postgres: mean(turns.map(({ cpu }) => cpu.postgres)) },
  others: othersOf(turns, expected),
})

export type PairedRow = ReturnType<typeof rowOf>

/** Two loads in turns, each of them first in every second round: a machine's speed moves within minutes. */
export const paired = async (
  measured: Measured,
  { ours, theirs }: { readonly ours: Job; readonly theirs: Job },
  options: Parameters<typeof load>[2] & { readonly rounds: number; readonly onTurn: () => void },
): Promise<{ readonly ours: PairedRow; readonly theirs: PairedRow; readonly error: number | null }> => {
  const { rounds, onTurn, ...times } = options
  const turns = { ours: [] as Turn[], theirs: [] as Turn[] }
  const jobs = { ours, theirs }
  for (let round = 0; round < rounds; round += 1)
    for (const which of round % 2 === 0 ? (['theirs', 'ours'] as const) : (['ours', 'theirs'] as const)) {
      onTurn()
      turns[which].push(await turn(measured, jobs[which], times))
    }
  return {
    ours: rowOf(turns.ours, '200'),
    theirs: rowOf(turns.theirs, '201'),
    error: ratioErrorOf(turns.ours, turns.theirs),
  }
}
