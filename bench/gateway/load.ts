import { connect, type Socket } from 'node:net'
import type { Speaks } from './contenders.ts'

/** A load on a proxy, in a process of its own: prints what it counted as JSON. */
export type Load = {
  readonly kind: 'tunnels' | 'bulk' | 'requests' | 'idle'
  readonly speaks: Speaks
  readonly authenticates: boolean
  readonly username: string
  readonly password: string
  readonly port: number
  readonly target: number
  readonly atOnce: number
  readonly ms: number
}

export type Counted = {
  readonly count: number
  readonly bytes: number
  readonly failed: number
  readonly ms: number
}

const load = JSON.parse(process.argv[2] ?? '{}') as Load
const { speaks, authenticates, username, password, target } = load

const credentials = authenticates
  ? `Proxy-Authorization: Basic ${Buffer.from(`${username}:${password}`).toString('base64')}\r\n`
  : ''
const connectHead = Buffer.from(
  `CONNECT 127.0.0.1:${target} HTTP/1.1\r\nHost: 127.0.0.1:${target}\r\n${credentials}\r\n`,
)
const request = Buffer.from(
  `GET http://127.0.0.1:${target}/some/path?of=it HTTP/1.1\r\nHost: 127.0.0.1:${target}\r\nUser-Agent: bench\r\nAccept: */*\r\n${credentials}\r\n`,
)
const greeting = Buffer.of(5, 1, authenticates ? 2 : 0)
const login = Buffer.concat([
  Buffer.of(1, username.length),
  Buffer.from(username),
  Buffer.of(password.length),
  Buffer.from(password),
])
const socksRequest = Buffer.of(5, 1, 0, 1, 127, 0, 0, 1, target >> 8, target & 0xff)

/** Opens a tunnel, one question after another as clients do. */
const openTunnel = (opened: (socket: Socket) => void): Socket => {
  const socket = connect({ port: load.port, host: '127.0.0.1', noDelay: true })
  const steps =
    speaks === 'http'
      ? [connectHead]
      : authenticates
        ? [greeting, login, socksRequest]
        : [greeting, socksRequest]
  const ends = speaks === 'http' ? [0] : authenticates ? [2, 2, 10] : [2, 10]
  let at = 0
  const next = (): void => void socket.write(steps[at]!)
  socket.once('connect', next)
  const answer = (bytes: Buffer): void => {
    const whole = speaks === 'http' ? bytes.includes('\r\n\r\n') : bytes.length >= ends[at]!
    if (!whole) return
    at += 1
    if (at < steps.length) {
      next()
      return
    }
    socket.off('data', answer)
    opened(socket)
  }
  socket.on('data', answer)
  return socket
}

let count = 0
let bytes = 0
let failed = 0
let over = false

const tunnels = (): void => {
  if (over) return
  let done = false
  const socket = openTunnel((opened) => {
    opened.once('data', () => {
      done = true
      opened.destroy()
    })
    opened.write('x')
  })
  socket.on('error', () => undefined)
  socket.once('close', () => {
    if (done) count += 1
    else failed += 1
    tunnels()
  })
}
const bulk = (): void => {
  const socket = openTunnel((opened) => {
    opened.on('data', ({ length }: Buffer) => {
      bytes += length
    })
    opened.write('x')
  })
  socket.on('error', () => {
    failed += 1
  })
}
const requests = (): void => {
  const socket = connect({ port: load.port, host: '127.0.0.1', noDelay: true })
  socket.once('connect', () => socket.write(request))
  let unread = 0
  let head = ''
  socket.on('data', (chunk: Buffer) => {
    if (unread === 0) {
      head += chunk.toString('latin1')
      const end = head.indexOf('\r\n\r\n')
      if (end === -1) return
      if (!head.startsWith('HTTP/1.1 200')) failed += 1
      unread = 200 - (head.length - end - 4)
      head = ''
    } else unread -= chunk.length
    if (unread > 0) return
    count += 1
    socket.write(request)
  })
  socket.on('error', () => {
    failed += 1
  })
}
const idle = (): void => {
  openTunnel(() => {
    count += 1
  }).on('error', () => {
    failed += 1
  })
}

const start = { tunnels, bulk, requests, idle }[load.kind]
const startedMs = performance.now()
// In small lots: a listen queue is short.
for (let n = 0; n < load.atOnce; n++) {
  start()
  if (n % 64 === 63) await new Promise((resolve) => setTimeout(resolve, 5))
}
if (load.kind === 'idle')
  while (count + failed < load.atOnce && performance.now() - startedMs < load.ms)
    await new Promise((resolve) => setTimeout(resolve, 20))
else await new Promise((resolve) => setTimeout(resolve, load.ms))
over = true
process.stdout.write(`${JSON.stringify({ count, bytes, failed, ms: performance.now() - startedMs })}\n`)
// Idle tunnels stay open until they are measured.
if (load.kind === 'idle') process.stdin.once('data', () => process.exit(0))
else process.exit(0)
