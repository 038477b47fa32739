import type { Client } from '../accept/client-connection.ts'
import type { GatewayContext } from '../accept/gateway-context.ts'
import { formatRouteHeaders, openRoute } from '../dial/open-route.ts'
import { targetBlocked } from '../refusals.ts'
import { tunnelOf } from '../relay/tunnel.ts'
import { createForwarding, type Forwarding } from './forward.ts'
import { BadMessage, createHeadCollector, type Head } from './message-head.ts'
import { answerAndEnd, type OwnAnswer } from './own-answer.ts'
import { type ConnectRequest, credentialsOf, parseRequest, SchemeRefused } from './parse-request.ts'

/** Serves CONNECT: admits the client, connects to the target, answers, and relays bytes. */
export const serveConnect = async (
  context: GatewayContext,
  client: Client,
  { target, authorization }: ConnectRequest,
): Promise<void> => {
  const { limits } = context
  client.detach()
  const admission = await client.admit('connect', credentialsOf(authorization))
  if (admission.denied) return answerAndEnd(client, admission, limits.lingerMs)
  const opened = await openRoute(context, client, admission, target)
  if (opened.denied) {
    admission.close({ error: opened.error, host: target.host })
    return answerAndEnd(client, opened, limits.lingerMs)
  }
  client.wire.socket.write(
    `HTTP/1.1 200 Connection established\r\n${formatRouteHeaders(opened)}\r\n`,
    'latin1',
  )
  tunnelOf(context, client, opened.wire, admission, 'connect', (error) =>
    admission.close({ error, host: target.host }),
  )
}

const badRequest = ({ status, message }: BadMessage): OwnAnswer => ({
  status,
  error: status === 431 ? 'head_too_large' : status === 505 ? 'version_not_supported' : 'bad_request',
  detail: `Bad request: ${message}.`,
})
const headTimeout = (ms: number): OwnAnswer => ({
  status: 408,
  error: 'head_timeout',
  detail: `The head of the request did not come within ${ms / 1_000} seconds.`,
})

const cr = 0x0d
const lf = 0x0a
/** Some clients send an empty line after a body (RFC 9112 section 2.2). */
const withoutEmptyLine = (chunk: Buffer): Buffer =>
  chunk[0] === cr && chunk[1] === lf ? chunk.subarray(2) : chunk

/** Serves HTTP/1 to one client: CONNECT, or consecutive requests in absolute form. */
export const serveHttp = (context: GatewayContext, client: Client): void => {
  const { limits } = context
  const { wire, watch } = client
  const heads = createHeadCollector(limits.headBytes)
  let forwarding: Forwarding | null = null
  let isDraining = false
  let isBetweenRequests = false

  /** Created with the first plain request, because a tunnel needs none. */
  const forwarder = (): Forwarding => {
    if (forwarding === null) {
      forwarding = createForwarding(context, client)
      if (isDraining) forwarding.drain()
    }
    return forwarding
  }

  const end = (answer: OwnAnswer): void => {
    forwarding?.close()
    answerAndEnd(client, answer, limits.lingerMs)
  }
  /** Refuses a scheme that is not forwarded. Only admitted clients receive this reason. */
  const refuseScheme = async ({ authorization }: SchemeRefused): Promise<void> => {
    client.detach()
    forwarding?.close()
    const admission = await client.admit('http', credentialsOf(authorization))
    const why = admission.denied
      ? admission
      : targetBlocked('Only http:// is forwarded; everything else goes through CONNECT.')
    if (!admission.denied) admission.close({ error: why.error, host: null })
    answerAndEnd(client, why, limits.lingerMs)
  }
  const serve = (head: Head): void => {
    isBetweenRequests = false
    const request = parseRequest(head)
    if (request.kind === 'forward') {
      forwarder().forward(request, readNext)
      return
    }
    forwarding?.close()
    client.contain(serveConnect(context, client, request))
  }
  const handleError = (error: unknown): void => {
    if (error instanceof SchemeRefused) client.contain(refuseScheme(error))
    else if (error instanceof BadMessage) end(badRequest(error))
    else throw error
  }
  const bytes = (chunk: Buffer): boolean => {
    try {
      const rest = heads.begun ? chunk : withoutEmptyLine(chunk)
      if (rest.length === 0) return true
      if (!heads.begun && isBetweenRequests) watch.within(limits.headMs, handleTimeout)
      const parsedHead = heads.add(rest)
      if (parsedHead === null) return true
      wire.unshift(parsedHead.rest)
      serve(parsedHead.head)
    } catch (error) {
      handleError(error)
    }
    return false
  }
  const handleTimeout = (): void => {
    if (isBetweenRequests && !heads.begun) {
      forwarding?.close()
      wire.socket.destroySoon()
    } else end(headTimeout(limits.headMs))
  }
  const closeForwarding = (): void => forwarding?.close()
  const readHead = (): void =>
    wire.use({
      bytes,
      end: () => {
        closeForwarding()
        wire.socket.end()
      },
      drain: () => undefined,
      closed: closeForwarding,
      holds: () => false,
    })
  const readNext = (): void => {
    isBetweenRequests = true
    watch.within(limits.idleMs, handleTimeout)
    readHead()
  }
  client.onDrain(() => {
    isDraining = true
    forwarding?.drain()
    if (isBetweenRequests && !heads.begun) handleTimeout()
  })
  watch.within(limits.headMs, handleTimeout)
  readHead()
}
