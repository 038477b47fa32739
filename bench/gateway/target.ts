import { type AddressInfo, createServer, type Socket } from 'node:net'

/** The targets behind the proxies, as a process of their own: prints the port of each. */
const reply = Buffer.from(`HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n${'x'.repeat(200)}`)
const block = Buffer.alloc(262_144, 'x')

const serving = (serve: (socket: Socket) => void): Promise<number> =>
  new Promise((resolve) => {
    const server = createServer({ noDelay: true }, (socket) => {
      socket.on('error', () => undefined)
      serve(socket)
    })
    server.listen({ port: 0, host: '127.0.0.1', backlog: 4_096 }, () =>
      resolve((server.address() as AddressInfo).port),
    )
  })

const flood = (socket: Socket): void => {
  const write = (): void => {
    while (socket.writable && socket.write(block));
  }
  socket.on('drain', write)
  socket.once('data', write)
}

const keepAlive = (socket: Socket): void => {
  let unread = ''
  socket.on('data', (bytes) => {
    unread += bytes.toString('latin1')
    let answers = 0
    for (let end = unread.indexOf('\r\n\r\n'); end !== -1; end = unread.indexOf('\r\n\r\n')) {
      unread = unread.slice(end + 4)
      answers += 1
    }
    for (; answers > 0; answers--) socket.write(reply)
  })
}

const ports = {
  /** Answers the first bytes and ends. */
  once: await serving((socket) => socket.once('data', () => socket.end(reply))),
  flood: await serving(flood),
  keepAlive: await serving(keepAlive),
  idle: await serving((socket) => void socket.resume()),
}
export type Ports = typeof ports

process.stdout.write(`${JSON.stringify(ports)}\n`)
