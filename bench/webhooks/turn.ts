import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import pg from 'pg'
import { cpuSpent } from '../process-cpu.ts'
import type { SendJob } from './contender.ts'
import type { Counted } from './receiver.ts'
import type { Receiving } from './receiving.ts'

/** A longer run is ended and measured by its arrived deliveries. */
const maxRunMs = 60_000
const lookMs = 50

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

/** What a contender did in one turn, from the end of its warm-up on. */
export type Turn = {
  readonly perSecond: number
  /** Processor time of one delivery, microseconds: the contender's process, and Postgres with all its sessions. */
  readonly nodeMicros: number
  readonly postgresMicros: number
  readonly counted: Counted
}

/** Samples the receiver and the processor time until every delivery arrived, or the time is over. */
const watch = async (
  child: ChildProcess,
  pool: pg.Pool,
  receiver: Receiving,
  { deliveries, endpoints, hanging }: SendJob,
  warmUp: number,
  onArrived: (distinct: number) => void,
): Promise<Turn> => {
  const expected = deliveries - Math.floor((deliveries * hanging) / endpoints)
  const endMs = performance.now() + maxRunMs
  const look = async () => ({ counted: await receiver.count(), spent: await cpuSpent(child.pid!, pool) })
  type Look = Awaited<ReturnType<typeof look>>
  let first: Look | null = null
  let last: Look | null = null
  // Sample by sample: the usage of a session is lost when it ends.
  const used = { node: 0, postgres: 0 }
  for (;;) {
    await pause(lookMs)
    const now = await look()
    onArrived(now.counted.distinct)
    if (last !== null)
      for (const part of ['node', 'postgres'] as const)
        used[part] += Math.max(0, now.spent[part] - last.spent[part])
    if (now.counted.distinct > warmUp) {
      first ??= now
      last = now
    }
    if (now.counted.distinct < expected && performance.now() < endMs) continue
    const { counted } = now
    const seen = Math.max(1, counted.distinct - (first ?? now).counted.distinct)
    return {
      perSecond: (Math.max(0, counted.distinct - warmUp) / Math.max(1, counted.elapsedMs)) * 1000,
      nodeMicros: used.node / seen,
      postgresMicros: used.postgres / seen,
      counted,
    }
  }
}

/** Runs a contender in a process of its own. What its first `warmUp` deliveries took does not count. */
export const takeTurn = async (
  receiver: Receiving,
  module: string,
  job: SendJob,
  warmUp: number,
  onArrived: (distinct: number) => void,
): Promise<Turn> => {
  await receiver.forget(warmUp)
  const child = fork(new URL(module, import.meta.url), { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
  const pool = new pg.Pool({ connectionString: job.databaseUrl, max: 1 })
  pool.on('error', () => undefined)
  const failed = once(child, 'exit').then(() => Promise.reject(new Error(`${module} ended by itself`)))
  failed.catch(() => undefined)
  try {
    const ready = once(child, 'message')
    child.send({ job })
    await Promise.race([ready, failed])
    child.send('go')
    return await Promise.race([watch(child, pool, receiver, job, warmUp, onArrived), failed])
  } finally {
    child.kill('SIGKILL')
    await pool.end()
  }
}
