import { createServer } from 'node:http'
import type { Registry } from 'prom-client'
import type { Closing } from '../kernel/closing.ts'

/** Serves `/metrics` to this machine. */
export const serveMetrics = async (closing: Closing, registry: Registry, port: number): Promise<void> => {
  const server = createServer((request, response) => {
    if (request.url !== '/metrics') {
      response.writeHead(404).end()
      return
    }
    void registry.metrics().then((text) => {
      response.writeHead(200, { 'content-type': registry.contentType }).end(text)
    })
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host: '127.0.0.1', port }, resolve)
  })
  closing.add(() => server.close())
}
