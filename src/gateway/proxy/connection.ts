import type { Client } from './client.ts'
import type { Context } from './context.ts'
import { answerAndEnd } from './http/answer.ts'
import { serveHttp } from './http/session.ts'
import { full } from './refusals.ts'
import { serveSocks } from './socks/session.ts'
import { discarding } from './wire.ts'

const socks5 = 0x05
/** "No acceptable methods" (RFC 1928 section 3): a SOCKS client is told no more before it has said who it is. */
const noMethod = Buffer.of(5, 0xff)

/** Tells by the first byte what a client speaks, and serves it. @param crowded all connections are taken */
export const serve = (context: Context, client: Client, crowded: boolean): void => {
  const { limits } = context
  const { wire, watch } = client
  const { socket } = wire
  watch.within(limits.headMs, () => socket.destroy())
  wire.use({
    bytes: (chunk) => {
      wire.unread(chunk)
      const isSocks = chunk[0] === socks5
      if (!crowded) (isSocks ? serveSocks : serveHttp)(context, client)
      else if (isSocks) {
        client.refused(503, full().error)
        watch.within(limits.lingerMs, () => socket.destroy())
        wire.use(discarding)
        socket.end(noMethod)
      } else answerAndEnd(client, full(), limits.lingerMs)
      return false
    },
    end: () => socket.end(),
    drain: () => undefined,
    closed: () => undefined,
    holds: () => false,
  })
}
