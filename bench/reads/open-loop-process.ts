import { Pool } from 'undici'
import type { OpenLoop, OpenLoopResult } from './open-loop.ts'

/** Requests that wait for an answer at once. Beyond that the server does not keep up, and nothing more is sent. */
const maxInFlight = 2_000

const measure = async (job: OpenLoop): Promise<OpenLoopResult> => {
  const { origin, gets, perSecond, warmUpMs, measureMs } = job
  const pool = new Pool(origin, { connections: job.connections })
  const latenciesMs: Record<string, number[]> = {}
  const statuses: Record<string, number> = {}
  const begunMs = performance.now()
  const startMs = begunMs + warmUpMs
  const endMs = startMs + measureMs
  const dueOf = (n: number): number => begunMs + (n * 1000) / perSecond
  const inFlight = new Set<Promise<void>>()

  const send = async (n: number): Promise<void> => {
    const { name, path, key } = gets[n % gets.length]!
    const { statusCode, body } = await pool.request({ method: 'GET', path, headers: { 'x-api-key': key } })
    await body.dump({ limit: Number.MAX_SAFE_INTEGER })
    if (dueOf(n) < startMs) return
    latenciesMs[name] ??= []
    latenciesMs[name].push(performance.now() - dueOf(n))
    statuses[statusCode] = (statuses[statusCode] ?? 0) + 1
  }

  let sent = 0
  const keepsUp = (): boolean => inFlight.size < maxInFlight
  while (dueOf(sent) < endMs && keepsUp()) {
    for (; dueOf(sent) <= performance.now() && dueOf(sent) < endMs && keepsUp(); sent += 1) {
      const one = send(sent).finally(() => inFlight.delete(one))
      inFlight.add(one)
    }
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
  const keptUp = keepsUp()
  await Promise.all(inFlight)
  await pool.close()
  return { latenciesMs, statuses, keptUp }
}

process.once('message', (job: OpenLoop) => {
  void measure(job).then((result) => process.send?.(result, () => process.disconnect()))
})
