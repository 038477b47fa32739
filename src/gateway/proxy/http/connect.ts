import type { Client } from '../client.ts'
import type { Context } from '../context.ts'
import { openRoute } from '../open-route.ts'
import { toldOf } from '../told.ts'
import { tunnelOf } from '../tunnel-of.ts'
import { answerAndEnd } from './answer.ts'
import { type ConnectRequest, credentialsOf } from './request.ts'

/** CONNECT: admits, connects, answers, and passes on bytes. */
export const serveConnect = async (
  context: Context,
  client: Client,
  { target, authorization }: ConnectRequest,
): Promise<void> => {
  const { limits } = context
  client.rest('tunnel')
  const admission = await client.admit('connect', credentialsOf(authorization))
  if (admission.denied) return answerAndEnd(client, admission, limits.lingerMs)
  const opened = await openRoute(context, client, admission, target)
  if (opened.denied) {
    admission.close({ error: opened.error, host: target.host })
    return answerAndEnd(client, opened, limits.lingerMs)
  }
  client.wire.socket.write(`HTTP/1.1 200 Connection established\r\n${toldOf(opened)}\r\n`, 'latin1')
  tunnelOf(context, client, opened.wire, admission, 'connect', (error) =>
    admission.close({ error, host: target.host }),
  )
}
