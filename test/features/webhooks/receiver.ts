import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'

export type Received = {
  readonly path: string
  readonly method: string
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
  // biome-ignore lint/suspicious/noExplicitAny: tests read into bodies freely
  readonly json: any
  /** By the receiver's own clock. */
  readonly atMs: number
}

export type Answer = (response: ServerResponse, received: Received, request: IncomingMessage) => void

export type Receiver = {
  readonly url: string
  readonly port: number
  readonly received: readonly Received[]
  /** All TCP connections to it. */
  connections(): number
  /** Its answer from now on; at first 200 and `ok`. */
  answer(how: Answer): void
}

/** A webhook receiver on a real socket of this machine, closed with the test. */
export const startReceiver = async (t: TestContext, host = '127.0.0.1'): Promise<Receiver> => {
  const received: Received[] = []
  let connections = 0
  let answer: Answer = (response) => response.end('ok')
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk) => chunks.push(chunk))
    request.on('error', () => undefined)
    request.on('end', () => {
      const body = Buffer.concat(chunks)
      const { url = '', method = '', headers } = request
      const one = { path: url, method, headers, body, json: JSON.parse(body.toString()), atMs: Date.now() }
      received.push(one)
      answer(response, one, request)
    })
  })
  server.on('connection', () => {
    connections += 1
  })
  server.listen(0, host)
  await once(server, 'listening')
  t.after(async () => {
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
  })
  const { port } = server.address() as AddressInfo
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${port}/hook`,
    port,
    received,
    connections: () => connections,
    answer: (how) => {
      answer = how
    },
  }
}

export const status =
  (code: number, headers: Readonly<Record<string, string>> = {}): Answer =>
  (response) => {
    response.writeHead(code, headers)
    response.end(`answered ${code}`)
  }
