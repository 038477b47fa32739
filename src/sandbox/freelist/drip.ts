import type { Socket } from 'node:net'

const everyMs = 300

/** Answers a byte at a time, well-formed as far as it gets, until the client has enough. */
export const drip = (socket: Socket, firstByte: number | undefined): void => {
  const answer =
    firstByte === 5
      ? Buffer.from([5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0])
      : firstByte === 4
        ? Buffer.from([0, 90, 0, 0, 0, 0, 0, 0])
        : Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n')
  let at = 0
  const timer = setInterval(() => {
    socket.write(at < answer.length ? answer.subarray(at, at + 1) : '.')
    at += 1
  }, everyMs)
  socket.once('close', () => clearInterval(timer))
  socket.resume()
}
