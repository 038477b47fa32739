import { basic, socksTo, type Talk, talkTo } from './clients.ts'
import { type CountingTarget, headerOf } from './counting-target.ts'

export const ways = ['connect', 'socks5'] as const
export type Way = (typeof ways)[number]

/** A tunnel's traffic, as its ends saw it. */
export type Carried = {
  /** Bytes that the client got. */
  readonly down: number
  /** Bytes that the target got until now. */
  up(): number
  /** Whether all that was wanted passed, or nothing at all because it was refused. */
  whole(): boolean
}

const nothing: Carried = { down: 0, up: () => 0, whole: () => true }

type Wanted = {
  readonly way: Way
  readonly up: number
  readonly down: number
  readonly username: string
  readonly password: string
  readonly port: number
  readonly target: CountingTarget
}

/** `used-up` for a plan that has no traffic left; null when the gateway is not there, or cannot serve now. */
const opened = async ({
  way,
  username,
  password,
  port,
  target,
}: Wanted): Promise<Talk | 'used-up' | null> => {
  try {
    if (way === 'socks5') {
      const signIn = { user: username, word: password }
      const { talk, reply } = await socksTo(port, '127.0.0.1', target.port, signIn)
      return reply === 0 ? talk : reply === 2 ? 'used-up' : null
    }
    const talk = await talkTo(port)
    talk.write(
      `CONNECT 127.0.0.1:${target.port} HTTP/1.1\r\nProxy-Authorization: ${basic(username, password)}\r\n\r\n`,
    )
    const head = await talk.until('\r\n\r\n')
    return head.startsWith('HTTP/1.1 200 ') ? talk : head.startsWith('HTTP/1.1 466 ') ? 'used-up' : null
  } catch {
    // Its worker was killed: the connection was refused, or broke before it was open.
    return null
  }
}

/** One tunnel to the counting target, read to its end, for any reason; null if none could be opened. */
export const carry = async (wanted: Wanted): Promise<Carried | null> => {
  const { up, down, target } = wanted
  const talk = await opened(wanted)
  if (talk === null) return null
  if (talk === 'used-up') return nothing
  const { socket } = talk
  const id = target.nextId()
  let got = 0
  socket.removeAllListeners('data').on('data', (chunk: Buffer) => {
    got += chunk.length
  })
  socket.write(Buffer.concat([headerOf(id, up, down), Buffer.alloc(up, 'u')]))
  await new Promise<void>((resolve) => {
    for (const event of ['end', 'close', 'error']) socket.once(event, () => resolve())
  })
  socket.destroy()
  return {
    down: got,
    up: () => target.received(id),
    whole: () => got === down && target.received(id) === 12 + up,
  }
}
