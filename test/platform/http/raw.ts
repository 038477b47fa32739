import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { TestContext } from 'node:test'

/** A connection of a test: the test sends the bytes, the received bytes are collected. */
export type Dialled = {
  readonly socket: Socket
  /** All that came until now. */
  heard(): string
  /** Whether it has ended, by whomever. */
  over(): boolean
}

/** Connects and sends bytes; ends with the test. A half-open client stays when the server hangs up. */
export const dial = async (
  t: TestContext,
  port: number,
  bytes = '',
  { from = '127.0.0.1', halfOpen = false }: { readonly from?: string; readonly halfOpen?: boolean } = {},
): Promise<Dialled> => {
  const socket = connect({ port, host: '127.0.0.1', localAddress: from, allowHalfOpen: halfOpen })
  t.after(() => socket.destroy())
  const chunks: Buffer[] = []
  let over = false
  socket.on('error', () => undefined)
  socket.on('data', (chunk: Buffer) => chunks.push(chunk))
  socket.once('close', () => {
    over = true
  })
  await once(socket, 'connect')
  if (bytes !== '') socket.write(bytes, 'latin1')
  return { socket, heard: () => Buffer.concat(chunks).toString('latin1'), over: () => over }
}

/** The head of an order that declares so many bytes. */
export const orderHead = (length: number, path = '/api/v1/orders', key = 'buyer-key', more = ''): string =>
  `POST ${path} HTTP/1.1\r\nhost: a\r\nx-api-key: ${key}\r\n${more}content-type: application/json\r\ncontent-length: ${length}\r\n\r\n`
