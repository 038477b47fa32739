import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { bodyOf } from '../../src/sandbox/scrapers/scraper-request.ts'
import { scrapersPath } from '../../src/sandbox/scrapers/scraper-sandbox.ts'
import { type Upstream, upstreams } from './upstreams.ts'

/**
 * The provider of the scrapers, in a process of its own and with answers that are made once: what the service and its
 * database do is measured, and the sandbox would take a share of their two cores. Each question on IPC is answered with what
 * was counted.
 */
export type Counted = {
  readonly port: number
  readonly requests: number
  readonly underWay: number
  /** Of one answer. */
  readonly bytes: Readonly<Record<keyof typeof upstreams, number>>
}

const answerOf = ({ row }: Upstream): Buffer =>
  Buffer.from(
    JSON.stringify({
      success: true,
      credits_remaining: 1_000_000,
      credits_charged: row.source.credits,
      ...(bodyOf(row, 'bench', 1, false) as object),
    }),
  )

const answers = new Map(
  Object.values(upstreams).map((upstream) => [
    `${scrapersPath}${upstream.row.source.path}`,
    { delayMs: upstream.delayMs, body: answerOf(upstream) },
  ]),
)

let requests = 0
let underWay = 0

const server = createServer((request, response) => {
  const answer = answers.get(request.url?.split('?', 1)[0] ?? '')
  if (answer === undefined) {
    response.writeHead(404).end()
    return
  }
  requests += 1
  underWay += 1
  const send = (): void => {
    underWay -= 1
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': answer.body.length })
    response.end(answer.body)
  }
  if (answer.delayMs === 0) send()
  else setTimeout(send, answer.delayMs)
})
server.keepAliveTimeout = 60_000

const bytesOf = (name: keyof typeof upstreams): number =>
  answers.get(`${scrapersPath}${upstreams[name].row.source.path}`)?.body.length ?? 0

const tell = (): void => {
  const { port } = server.address() as AddressInfo
  const bytes = { instant: bytesOf('instant'), steady: bytesOf('steady'), slow: bytesOf('slow') }
  process.send?.({ port, requests, underWay, bytes } satisfies Counted)
}

server.listen(0, '127.0.0.1', tell)
process.on('message', tell)
process.on('disconnect', () => process.exit())
