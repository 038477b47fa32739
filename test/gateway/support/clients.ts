import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { promisify } from 'node:util'
import { encodeTarget } from '../../../src/gateway/socks/socks-messages.ts'
import { targetOf } from '../../../src/gateway/targets.ts'
import { password, username } from './memory-ports.ts'

export const basic = (user = username, word = password): string =>
  `Basic ${Buffer.from(`${user}:${word}`).toString('base64')}`

export const authorization = `Proxy-Authorization: ${basic()}\r\n`

/** A connection whose bytes are read piece by piece. */
export type Talk = {
  readonly socket: Socket
  write(data: string | Buffer): void
  /** Up to and with `mark`. */
  until(mark: string): Promise<string>
  exactly(bytes: number): Promise<Buffer>
  /** All up to the end; rejects when the connection is reset. */
  rest(): Promise<Buffer>
}

export const talkOver = (socket: Socket): Talk => {
  let bytes: Buffer = Buffer.alloc(0)
  let ended = false
  let fault: Error | null = null
  const changed = new EventTarget()
  const change = (): void => void changed.dispatchEvent(new Event('change'))
  socket.on('data', (chunk: Buffer) => {
    bytes = Buffer.concat([bytes, chunk])
    change()
  })
  socket.on('end', () => {
    ended = true
    change()
  })
  socket.on('error', (error) => {
    fault = error
    change()
  })
  socket.on('close', () => {
    ended = true
    change()
  })
  const take = (length: number): Buffer => {
    const taken = bytes.subarray(0, length)
    bytes = bytes.subarray(length)
    return taken
  }
  const wait = async (length: () => number | null): Promise<Buffer> => {
    for (;;) {
      const found = length()
      if (found !== null) return take(found)
      if (fault) throw fault
      if (ended)
        throw new Error(
          `the connection ended after ${JSON.stringify(bytes.toString('latin1').slice(0, 500))}`,
        )
      await new Promise<void>((resolve) =>
        changed.addEventListener('change', () => resolve(), { once: true }),
      )
    }
  }
  return {
    socket,
    write: (data) => void socket.write(data),
    until: async (mark) =>
      (
        await wait(() => {
          const at = bytes.indexOf(mark)
          return at === -1 ? null : at + mark.length
        })
      ).toString('latin1'),
    exactly: (length) => wait(() => (bytes.length >= length ? length : null)),
    rest: () => wait(() => (ended && fault === null ? bytes.length : null)),
  }
}

export const talkTo = async (port: number, host = '127.0.0.1'): Promise<Talk> => {
  const socket = connect({ port, host, allowHalfOpen: true, noDelay: true })
  const talk = talkOver(socket)
  await once(socket, 'connect')
  return talk
}

/** Opens a tunnel by CONNECT. @throws when it is not answered 200 */
export const connectBy = async (port: number, target: string, host?: string): Promise<Talk> => {
  const talk = await talkTo(port, host)
  talk.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n${authorization}\r\n`)
  const head = await talk.until('\r\n\r\n')
  if (!head.startsWith('HTTP/1.1 200 ')) throw new Error(head)
  return talk
}

/** Speaks SOCKS5 up to the reply. @returns its code */
export const socksTo = async (
  port: number,
  host: string,
  targetPort: number,
  { user = username as string | null, word = password, command = 1 } = {},
): Promise<{ readonly talk: Talk; readonly reply: number; readonly bound: Buffer }> => {
  const talk = await talkTo(port)
  talk.write(Buffer.of(5, 1, user === null ? 0 : 2))
  const method = await talk.exactly(2)
  if (method[1] === 0xff) return { talk, reply: -2, bound: Buffer.alloc(0) }
  if (user !== null) {
    const name = Buffer.from(user)
    const secret = Buffer.from(word)
    talk.write(Buffer.concat([Buffer.of(1, name.length), name, Buffer.of(secret.length), secret]))
    const status = await talk.exactly(2)
    if (status[1] !== 0) return { talk, reply: -1, bound: Buffer.alloc(0) }
  }
  const target = targetOf(host, targetPort) ?? { host, family: 0 as const, port: targetPort }
  talk.write(Buffer.concat([Buffer.of(5, command, 0), encodeTarget(target)]))
  const head = await talk.exactly(4)
  const bound = await talk.exactly(head[3] === 4 ? 18 : 6)
  return { talk, reply: head[1]!, bound: Buffer.concat([head.subarray(3), bound]) }
}

export const sendRaw = async (port: number, bytes: string | Buffer): Promise<string> => {
  const talk = await talkTo(port)
  talk.write(bytes)
  const answer = await talk.rest()
  talk.socket.destroy()
  return answer.toString('latin1')
}

const run = promisify(execFile)

/**
 * Runs the real curl.
 * @returns its output
 */
export const curl = async (...args: string[]): Promise<string> => {
  const { stdout } = await run('curl', ['--silent', '--show-error', '--max-time', '20', ...args], {
    env: { PATH: process.env.PATH },
    maxBuffer: 64_000_000,
  })
  return stdout
}
