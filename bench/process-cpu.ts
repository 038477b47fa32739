import { readFile } from 'node:fs/promises'
import type pg from 'pg'

/** Clock ticks a second, as every Linux that Node runs on has them. */
const ticksPerSecond = 100

/** Processor time of a process or (`/proc/<pid>/task/<tid>`) a thread, microseconds; 0 for one that has ended. */
export const cpuMicros = async (path: string): Promise<number> => {
  const stat = await readFile(`${path}/stat`, 'utf8').catch(() => null)
  if (stat === null) return 0
  // After the name, which may hold blanks: state is the 3rd field, user and system time the 14th and 15th.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return ((Number(fields[11]) + Number(fields[12])) * 1_000_000) / ticksPerSecond
}

/** Processor time used so far, microseconds. */
export type CpuSpent = {
  /** The whole process of the server: its main thread, the collector, the compiler. */
  readonly node: number
  readonly mainThread: number
  /** Every session of the database and the background processes of Postgres. */
  readonly postgres: number
}

/** Processor time of the processes that a process started, microseconds. */
export const childrenCpuMicros = async (pid: number): Promise<number> => {
  const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '')
  const each = children.split(' ').filter((child) => child !== '')
  const micros = await Promise.all(each.map((child) => cpuMicros(`/proc/${child}`)))
  return micros.reduce((sum, one) => sum + one, 0)
}

/** Reads `/proc`, so Linux and a Postgres on this machine are needed; elsewhere all are 0. */
export const cpuSpent = async (pid: number, pool: pg.Pool): Promise<CpuSpent> => {
  const { rows } = await pool.query<{ pid: number }>(
    'select pid from pg_stat_activity where (datname is null or datname = current_database()) and pid <> pg_backend_pid()',
  )
  const backends = await Promise.all(rows.map(({ pid }) => cpuMicros(`/proc/${pid}`)))
  return {
    node: await cpuMicros(`/proc/${pid}`),
    mainThread: await cpuMicros(`/proc/${pid}/task/${pid}`),
    postgres: backends.reduce((sum, micros) => sum + micros, 0),
  }
}
