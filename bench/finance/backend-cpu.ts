import { readFile } from 'node:fs/promises'
import type pg from 'pg'

/** Clock ticks a second, as every Linux that Node runs on has them. */
const ticksPerSecond = 100

/** Processor time that a session's backend has used, milliseconds; null where /proc does not tell (not Linux, or remote). */
export const backendCpuMs = async (pool: pg.Pool, applicationName: string): Promise<number | null> => {
  const { rows } = await pool.query<{ pid: number }>(
    'select pid from pg_stat_activity where application_name = $1::text',
    [applicationName],
  )
  let ms = 0
  for (const { pid } of rows) {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => null)
    if (stat === null) return null
    // After the name, which may hold blanks: state is the 3rd field, user and system time the 14th and 15th.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    ms += ((Number(fields[11]) + Number(fields[12])) * 1000) / ticksPerSecond
  }
  return ms
}
