import { readFile } from 'node:fs/promises'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'

/**
 * A fast receiver over TLS in a process of its own. It counts each delivery once, by the header that names it, and reports
 * over IPC what it counted. What comes to `/hang` is never answered.
 */
export type Counted = {
  readonly port: number
  /** Distinct deliveries, and requests in all. */
  readonly distinct: number
  readonly requests: number
  /** Milliseconds from the last distinct delivery of the warm-up (from the first one without) to the last one of all. */
  readonly elapsedMs: number
  readonly hanging: number
}

const seen = new Set<string>()
let requests = 0
let hanging = 0
let warmUp = 0
let firstMs = 0
let lastMs = 0

const [keyFile = '', certFile = ''] = process.argv.slice(2)
const server = createServer(
  { key: await readFile(keyFile), cert: await readFile(certFile) },
  (request, response) => {
    request.resume()
    request.on('end', () => {
      if (request.url === '/hang') {
        hanging += 1
        return
      }
      requests += 1
      const id = String(request.headers['webhook-id'])
      if (!seen.has(id)) {
        seen.add(id)
        lastMs = performance.now()
        if (seen.size === Math.max(1, warmUp)) firstMs = lastMs
      }
      response.end('ok')
    })
  },
)
server.requestTimeout = 0
server.keepAliveTimeout = 60_000
server.listen(0, '127.0.0.1', () => tell())

const tell = (): void => {
  const { port } = server.address() as AddressInfo
  const elapsedMs = seen.size < warmUp ? 0 : lastMs - firstMs
  const counted: Counted = { port, distinct: seen.size, requests, elapsedMs, hanging }
  process.send?.(counted)
}

/** A request to the receiver: return the count, or restart counting after a warm-up of some deliveries. */
export type Question = 'count' | { readonly forget: { readonly warmUp: number } }

process.on('message', (question: Question) => {
  if (question !== 'count') {
    warmUp = question.forget.warmUp
    seen.clear()
    requests = 0
    hanging = 0
  }
  tell()
})
process.on('disconnect', () => process.exit())
