import type { AddressInfo } from 'node:net'
import { createServer, type Socket } from 'node:net'
import type { TestContext } from 'node:test'
import pg from 'pg'

/** Whole messages of Postgres's protocol, which begin with a kind and their length, out of pieces. */
const messagesOf = (take: (message: Buffer) => void) => {
  let held = Buffer.alloc(0)
  return (piece: Buffer): void => {
    held = Buffer.concat([held, piece])
    while (held.length >= 5 && held.length > held.readInt32BE(1)) {
      const end = 1 + held.readInt32BE(1)
      take(held.subarray(0, end))
      held = held.subarray(end)
    }
  }
}

const message = (kind: string, ...parts: readonly Buffer[]): Buffer => {
  const body = Buffer.concat(parts)
  const head = Buffer.alloc(5)
  head.write(kind, 'latin1')
  head.writeInt32BE(4 + body.length, 1)
  return Buffer.concat([head, body])
}

type Session = { readonly socket: Socket; client: Socket | null }

const idle = 'I'.charCodeAt(0)

/** Takes the socket of a signed-in session, and forwards its answers. */
const hijack = async (url: string): Promise<Session> => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const { stream } = (client as unknown as { connection: { stream: Socket } }).connection
  stream.removeAllListeners()
  stream.on('error', () => undefined)
  const session: Session = { socket: stream, client: null }
  const take = messagesOf((answer) => {
    const to = session.client
    // The session is free when it is ready for a query outside of a transaction.
    if (answer[0] === 'Z'.charCodeAt(0) && answer[5] === idle) session.client = null
    to?.write(answer)
  })
  stream.on('data', take)
  return session
}

/**
 * A connection pooler like PgBouncer in transaction mode: each transaction of a client gets any free session.
 * Bytes of a client without a free session are lost: there are as many sessions as a test has connections.
 * @param next which of the free sessions the next transaction gets
 */
export const startTransactionPooler = async (
  t: TestContext,
  url: string,
  next: 'the last' | 'another',
): Promise<string> => {
  const sessions = await Promise.all([hijack(url), hijack(url), hijack(url), hijack(url)])
  let turns = 0
  const sessionFor = (client: Socket): Session | undefined => {
    const held = sessions.find((session) => session.client === client)
    if (held) return held
    const free = sessions.filter((session) => session.client === null)
    const chosen = free[next === 'the last' ? 0 : turns++ % free.length]
    if (chosen) chosen.client = client
    return chosen
  }
  const server = createServer((client) => {
    client.on('error', () => undefined)
    let signedIn = false
    const take = messagesOf((packet) => {
      if (packet[0] !== 'X'.charCodeAt(0)) sessionFor(client)?.socket.write(packet)
    })
    client.on('data', (piece) => {
      if (signedIn) return take(piece)
      // A startup message has no kind. TLS is refused.
      if (piece.length === 8) return client.write('N')
      signedIn = true
      const key = Buffer.alloc(8, 1)
      client.write(
        Buffer.concat([message('R', Buffer.alloc(4)), message('K', key), message('Z', Buffer.from('I'))]),
      )
    })
  }).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  t.after(() => {
    server.close()
    for (const { socket } of sessions) socket.destroy()
  })
  const pooled = new URL(url)
  pooled.hostname = '127.0.0.1'
  pooled.port = String((server.address() as AddressInfo).port)
  return pooled.toString()
}
