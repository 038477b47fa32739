import { connect, type Socket } from 'node:net'
import { percentile } from '../percentile.ts'

/** How long a load runs before it counts, and then. */
export type Times = { readonly warmUpMs: number; readonly measureMs: number }

/**
 * An HTTP client in a process of its own. A closed loop: each connection sends its next request when the last one is
 * answered. Or an open one: requests are due at even distances, whether the ones before are answered or not.
 * Hand-written on sockets, since a general client takes as much of the two cores as the server.
 * In: a job on IPC, and anything after it to stop before its time. Out: what it measured, then it ends.
 */
export type LoadJob = Times & {
  readonly host: string
  readonly port: number
  readonly connections: number
  /** One for all, or several that are taken in turn. */
  readonly path: string | readonly string[]
  /** Requests take turns over these keys. */
  readonly keys: readonly string[]
  /** Requests take turns over these bodies; empty for GET. */
  readonly bodies: readonly string[]
  /** The reseller's own id of the customer that each order is for; null or left out: an order for itself. */
  readonly customer?: string | null
  /** Requests a second at most, sent at even distances; left out: as many as are answered. */
  readonly perSecond?: number
  /** The loop is open: how long a request took is counted from when it was due, so what waits for a connection is seen to wait. */
  readonly open?: true
  /** The name of each path; times are reported by it too. */
  readonly names?: readonly string[]
  /** Makes the idempotency keys of this run differ from every other run's. */
  readonly run: string
  /** The header that the idempotency key goes in; default `Idempotency-Key`. */
  readonly idHeader?: 'X-Request-Id'
  /** So many idempotency keys, again and again, with the key and the body of their first time; left out: always another. */
  readonly ids?: number
}

export type LoadResult = {
  readonly perSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** Of every measured request, rising. */
  readonly latenciesMs: readonly number[]
  /** The same by the name of the path, where paths have names, as they were answered. */
  readonly byName: Readonly<Record<string, readonly number[]>>
  readonly statuses: Readonly<Record<string, number>>
}

/** Gives the n-th request; what does not change from one to the next is put together once. */
const requestsOf = (job: LoadJob): ((n: number) => string) => {
  const heads = job.keys.map((key) => ` HTTP/1.1\r\nHost: ${job.host}:${job.port}\r\nX-API-Key: ${key}\r\n`)
  const paths = typeof job.path === 'string' ? [job.path] : job.path
  const customer = job.customer ? `X-Reseller-Customer-Id: ${job.customer}\r\n` : ''
  const ends = job.bodies.map(
    (body) =>
      `\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  )
  const pick = (list: readonly string[], n: number): string => list[n % list.length] ?? ''
  const id = `${customer}${job.idHeader ?? 'Idempotency-Key'}: ${job.run}-`
  return (sent) => {
    if (ends.length === 0) return `GET ${pick(paths, sent)}${pick(heads, sent)}\r\n`
    const n = job.ids === undefined ? sent : sent % job.ids
    return `POST ${pick(paths, n)}${pick(heads, n)}${id}${n}${pick(ends, n)}`
  }
}

const contentLength = /\r\ncontent-length: (\d+)/i

const measure = async (job: LoadJob, stopped: AbortSignal): Promise<LoadResult> => {
  const latenciesMs: number[] = []
  const byName: Record<string, number[]> = {}
  const { names } = job
  const statuses: Record<string, number> = {}
  const begunMs = performance.now()
  const startMs = begunMs + job.warmUpMs
  const endMs = startMs + job.measureMs
  const request = requestsOf(job)
  let sent = 0
  let due = 0

  const connection = (): Promise<void> =>
    new Promise((resolve, reject) => {
      // Read into one buffer and looked at there: 22 µs a request, as a stream of strings 27.
      const buffer = Buffer.allocUnsafe(65_536)
      const callback = (length: number): boolean => {
        read(buffer.toString('latin1', 0, length))
        return true
      }
      const socket: Socket = connect({
        host: job.host,
        port: job.port,
        noDelay: true,
        onread: { buffer, callback },
      })
      let sentMs = 0
      let dueMs = 0
      let name = ''
      let answer = ''
      const next = (): void => {
        dueMs = begunMs + (job.perSecond === undefined ? 0 : (due++ * 1000) / job.perSecond)
        const waitMs = dueMs - performance.now()
        if (waitMs > 0) setTimeout(send, waitMs)
        else send()
      }
      const send = (): void => {
        sentMs = performance.now()
        if (sentMs >= endMs || stopped.aborted) {
          socket.end()
          resolve()
          return
        }
        if (job.open) sentMs = dueMs
        if (names !== undefined) name = names[sent % names.length]!
        socket.write(request(sent), 'latin1')
        sent += 1
      }
      const read = (chunk: string): void => {
        answer += chunk
        const headEnd = answer.indexOf('\r\n\r\n')
        if (headEnd < 0) return
        const length = Number(contentLength.exec(answer.slice(0, headEnd))?.[1] ?? 0)
        if (answer.length < headEnd + 4 + length) return
        const nowMs = performance.now()
        if (sentMs >= startMs) {
          latenciesMs.push(nowMs - sentMs)
          if (names !== undefined) {
            byName[name] ??= []
            byName[name]!.push(nowMs - sentMs)
          }
          const status = answer.slice(9, 12)
          statuses[status] = (statuses[status] ?? 0) + 1
        }
        answer = ''
        next()
      }
      socket.on('connect', next)
      socket.on('error', reject)
    })

  await Promise.all(Array.from({ length: job.connections }, connection))
  const tookMs = Math.min(performance.now(), endMs) - startMs
  latenciesMs.sort((a, b) => a - b)
  return {
    perSecond: latenciesMs.length / (tookMs / 1000),
    p50Ms: percentile(latenciesMs, 0.5),
    p99Ms: percentile(latenciesMs, 0.99),
    latenciesMs,
    byName,
    statuses,
  }
}

process.once('message', (job: LoadJob) => {
  const stopped = new AbortController()
  process.once('message', () => stopped.abort())
  void measure(job, stopped.signal).then((result) => process.send?.(result, () => process.disconnect()))
})
